"""The ``twistd`` commands: one for each service."""

from svcserver.web.options import plugin

metagame = plugin("metagame", "The game's main backend.")
deploy = plugin("deploy", "Starts and watches game servers.")
content = plugin("content", "Verified game files and news.")
gateway = plugin("gateway", "The public HTTPS entry.")
allowlist = plugin("allowlist", "Opens the UDP game ports for players' addresses.")
relay = plugin("relay", "For a player's PC: sends the game's requests over TLS.")
agent = plugin("agent", "For a node of a fleet: connects its game servers to their host.")
stack = plugin("stack", "The whole host from one folder.")
watch = plugin("watch", "Alerts of a host without svc-stack.", "svcserver.stack.watch")
