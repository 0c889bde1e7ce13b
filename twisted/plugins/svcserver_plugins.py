"""One ``twistd`` command per service, and nothing else."""

from svcserver.web.options import plugin

metagame = plugin("metagame", "The game's main backend.")
deploy = plugin("deploy", "Starts and watches game servers.")
content = plugin("content", "Verified game files and news.")
gateway = plugin("gateway", "The public HTTPS entry.")
allowlist = plugin("allowlist", "Opens the UDP game ports for players' addresses.")
relay = plugin("relay", "On a player's PC: the game's way to TLS.")
stack = plugin("stack", "The whole host from one folder.")
watch = plugin("watch", "Alerts of a host without svc-stack.", "svcserver.stack.watch")
