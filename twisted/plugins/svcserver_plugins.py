"""The doors: one ``twistd`` command per service, nothing else."""

from twisted.application.service import ServiceMaker

metagame = ServiceMaker(
    "svc-metagame", "svcserver.metagame.service", "The game's main backend.", "svc-metagame"
)
deploy = ServiceMaker(
    "svc-deploy", "svcserver.deploy.service", "Starts and watches game servers.", "svc-deploy"
)
content = ServiceMaker(
    "svc-content", "svcserver.content.service", "Verified game files and news.", "svc-content"
)
gateway = ServiceMaker(
    "svc-gateway", "svcserver.gateway.service", "The public HTTPS entry.", "svc-gateway"
)
allowlist = ServiceMaker(
    "svc-allowlist",
    "svcserver.allowlist.service",
    "Opens the UDP game ports for players' addresses.",
    "svc-allowlist",
)
relay = ServiceMaker(
    "svc-relay", "svcserver.relay.service", "On a player's PC: the game's way to TLS.", "svc-relay"
)
stack = ServiceMaker(
    "svc-stack", "svcserver.stack.service", "The whole host from one folder.", "svc-stack"
)
