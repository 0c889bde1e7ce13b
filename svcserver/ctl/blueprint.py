"""The contents of a new host's env files, as written by ``svcctl init`` and ``demo``."""

from __future__ import annotations

import ipaddress
import shutil
import socket
import sys
from contextlib import closing
from pathlib import Path

from attrs import Factory, asdict, field, frozen

from svcserver.ctl.keys import SigningKeyPair
from svcserver.db.engine import sqlite_url
from svcserver.kernel.secrets import Secret
from svcserver.stack.workers import EACH

NET = ipaddress.ip_network("100.64.0.0/10")
PROBE = "100.100.100.100"  # an address inside the network; nothing is sent to it
LOOPBACK = "127.0.0.1"


def own_address() -> str | None:
    """Return this machine's address in 100.64.0.0/10, or None if it has no such address."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect((PROBE, 9))
            address = str(probe.getsockname()[0])
        except OSError:
            return None
    return address if is_private(address) and address != LOOPBACK else None


def is_private(address: str) -> bool:
    """Return whether a host without a gateway may listen on ``address``.

    Allowed are IPv4 loopback addresses and addresses of an overlay network (100.64.0.0/10).
    """
    try:
        parsed = ipaddress.IPv4Address(address)
    except ValueError:
        return False
    return parsed.is_loopback or parsed in NET


PRIVATE = ("metagame", "deploy", "content")
EVERYWHERE = "0.0.0.0"  # noqa: S104 - the gateway is the public entry
CITY_MAP = "/Game/Maps/city/city_persistent"
SERVER_NAME = "Game Server"
LAUNCHER = "launcher"  # the folder from which a host offers the launcher


@frozen
class Ports:
    """The ports of a host's components.

    Game servers use the UDP ports from ``hunts`` to ``city``, including both.
    """

    metagame: int = 61000
    deploy: int = 61001
    content: int = 61002
    allowlist: int = 61005
    chat: int = 61099
    gateway: int = 443
    relay: int = 61010
    hunts: int = 8770
    city: int = 8777
    metagame_figures: int = 61020
    gateway_figures: int = 61021
    deploy_figures: int = 61022
    content_figures: int = 61023
    allowlist_figures: int = 61024
    workers: int = 61100  # WORKER_PORTS, the first port of the metagame's workers

    @classmethod
    def from_base(cls, base: int) -> Ports:
        """Return the ports of a host whose metagame listens on ``base``.

        All other ports are a little higher. The UDP ports are ``base + 70`` to ``base + 77``. With
        workers, the last port is ``base + 291``.
        """
        usual = asdict(cls())
        moved = {name: base + port - usual["metagame"] for name, port in usual.items()}
        return cls(**moved | {"gateway": base + 43, "hunts": base + 70, "city": base + 77})

    def tcp(self, *, private: bool, workers: int) -> list[int]:
        """Return the TCP ports that a host listens on."""
        ports = [self.metagame, self.deploy, self.content]
        ports += [self.metagame_figures, self.deploy_figures, self.content_figures]
        if not private:
            ports += [self.gateway, self.allowlist, self.chat]
            ports += [self.gateway_figures, self.allowlist_figures]
        if workers > 1:
            ports += range(self.workers, self.workers + EACH * workers)
        return ports

    @property
    def udp(self) -> range:
        return range(self.hunts, self.city + 1)


@frozen
class Secrets:
    """The secrets of a new host."""

    gateway: Secret
    allowlist: Secret
    game_server: Secret
    signing: SigningKeyPair


@frozen
class Scale:
    """The number of metagame processes, and the URLs of the database and of Valkey or Redis."""

    workers: int = 1
    database: str = field(default="", repr=False)  # DATABASE_URL; empty: a file in the folder
    live: str = field(default="", repr=False)  # LIVE_URL; empty: memory:
    live_password: str = field(default="", repr=False)  # a password that init created


@frozen
class Plan:
    """The values from which the env files are made; ``folder`` and ``data`` are absolute paths.

    Services run in ``data`` and keep everything there except settings and certificates. If
    ``private`` is true, the host has no gateway, and ``public_host`` is the address to listen on.
    """

    folder: Path
    public_host: str
    secrets: Secrets
    fingerprint: str
    ports: Ports = field(factory=Ports)
    demo: bool = False
    private: bool = False
    scale: Scale = Scale()
    name: str = SERVER_NAME  # the host's name that players see
    data: Path = field(default=Factory(lambda plan: plan.folder, takes_self=True))

    @property
    def metagame_host(self) -> str:
        """Return the address that the metagame listens on."""
        return self.public_host if self.private else "127.0.0.1"

    @property
    def components(self) -> tuple[str, ...]:
        """Return this host's components, without the relay, which runs on players' computers."""
        return PRIVATE if self.private else (*PRIVATE, "gateway", "allowlist")


def program() -> str:
    """Return the path of ``svc-gameserver-sim``, used until the owner sets a real game server."""
    beside = Path(sys.executable).with_name("svc-gameserver-sim")
    return str(beside) if beside.exists() else shutil.which("svc-gameserver-sim") or str(beside)


def address_of(host: str) -> str:
    """Return the IPv4 address of ``host`` for MY_IP; empty if it cannot be resolved here.

    The result is also empty if a name other than localhost resolves to a loopback address, which
    players cannot reach. Debian maps a machine's own name to 127.0.1.1 in /etc/hosts, and podman
    copies that file into containers.
    """
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        pass
    try:
        address = socket.gethostbyname(host)
    except OSError:
        return ""
    return "" if ipaddress.IPv4Address(address).is_loopback and host != "localhost" else address


def files(plan: Plan) -> dict[str, str]:
    """Return the env files as a mapping from file name to content."""
    inside = {
        "metagame.env": _metagame(plan),
        "deploy.env": _deploy(plan),
        "content.env": _content(plan),
    }
    if plan.scale.workers > 1 or plan.data != plan.folder or plan.ports.workers != Ports().workers:
        inside["stack.env"] = _stack(plan)
    if plan.private:
        return inside
    return inside | {
        "gateway.env": _gateway(plan),
        "allowlist.env": _allowlist(plan),
        "relay.env": _relay(plan),
    }


def _stack(plan: Plan) -> str:
    text = f"""\
# Settings of svc-stack. WORKERS is the number of metagame processes (see the page "Scale").
WORKERS={plan.scale.workers}
"""
    if plan.ports.workers != Ports().workers:
        text += f"WORKER_PORTS={plan.ports.workers}\n"
    return text if plan.data == plan.folder else f"{text}DATA_DIR={plan.data}\n"


def _metagame(plan: Plan) -> str:
    ports, secrets = plan.ports, plan.secrets
    text = f"""\
# The game's main backend. Every setting: the page "Configuration"
PORT={ports.metagame}
BIND_HOST={plan.metagame_host}
NODE_ENV=production
AUTH_MODE=APIKEY
AUTH_SIGNING_PRIVKEY_B64={secrets.signing.private}
AUTH_SIGNING_PUBKEY_B64={secrets.signing.public}
# NONE: nobody may register. INVITECODE: with a code (svcctl invite create). OPEN: anybody.
REGISTRATION_MODE=INVITECODE
DATABASE_URL={plan.scale.database or sqlite_url(plan.data / "svc.db")}
{f"LIVE_URL={plan.scale.live}" if plan.scale.live else "# LIVE_URL=memory:"}
# saves kept for each character: the newest 100, and one for each of 48 hours and 30 days.
# Without this line, every save is kept.
SAVE_HISTORY_KEEP=100
{_shielded(plan)}SERVER_NAME={plan.name}
MATCHMAKING_MODE=DEPLOYSERVER
DEPLOYSERVER_URL=127.0.0.1:{ports.deploy}
# the same in deploy.env; put your game's city here
CITY_MAP={CITY_MAP}
# counts requests, errors and response times for svcctl status, the dashboard and alerts
BACKEND_HEALTH=1
{_figures(ports.metagame_figures)}{_chat(plan)}"""
    if plan.demo:
        text = text.replace("REGISTRATION_MODE=INVITECODE", "REGISTRATION_MODE=OPEN")
        text += "CHAT_PRESENCE=1\nSTORE=free\nGUILDS=1\n"
    return text


def _figures(port: int) -> str:
    return f"""\
# metrics for Prometheus and for alerts, readable on this machine only
METRICS_PORT={port}
"""


def _shielded(plan: Plan) -> str:
    """Return the metagame's settings that depend on whether the host has a gateway."""
    if plan.private:
        return f"""\
# players connect directly to BIND_HOST, so the metagame itself answers for the region list
QOS_TARGET_URL=http://{plan.public_host}:{plan.ports.metagame}/QoS
"""
    return f"""\
# the same in gateway.env
GATEWAY_SECRET={plan.secrets.gateway.reveal()}
# the same in allowlist.env: a ban or a kick immediately closes the game ports for the player
ALLOWLIST_URL=http://127.0.0.1:{plan.ports.allowlist}
ALLOWLIST_SECRET={plan.secrets.allowlist.reveal()}
# the relay on the player's computer, which answers for the region list
QOS_TARGET_URL=http://127.0.0.1:61000/QoS
"""


def _chat(plan: Plan) -> str:
    if plan.private:
        return f"""\
# without a gateway, players cannot reach the chat
CHAT=0
CONTENT_PORT={plan.ports.content}
"""
    return f"CHAT=1\nCHAT_PORT={plan.ports.chat}\n"


def _deploy(plan: Plan) -> str:
    text = f"""\
# Starts and watches game servers.
PORT={plan.ports.deploy}
BIND_HOST=127.0.0.1
NODE_ENV=production
# the IPv4 address that players' games connect to
MY_IP={address_of(plan.public_host)}
PORT_RANGE_BEGIN={plan.ports.hunts}
PORT_RANGE_END={plan.ports.city}
# a simulated game server; put the path of the real program here
GAMESERVER_BINARY_PATH={program()}
# each launch gets a separate key, which is valid while its game server runs
GAMESERVER_LAUNCH_KEYS=1
# for game servers started by hand; registered with the metagame (svcctl gameserver-key add)
METAGAME_API_KEY={plan.secrets.game_server.reveal()}
# the same in metagame.env
CITY_MAP={CITY_MAP}
{_figures(plan.ports.deploy_figures)}"""
    if plan.demo:
        text += "GAMESERVER_MEMORY_GUARD=0\n"
    if plan.demo or plan.private:
        # for the game-server simulator; a real game server has its own setting
        text += f"SVC_METAGAME_URL=http://{plan.metagame_host}:{plan.ports.metagame}\n"
    return text


def _content(plan: Plan) -> str:
    text = f"""\
# Verified game files for registered players.
PORT={plan.ports.content}
BIND_HOST={plan.metagame_host}
METAGAME_URL=http://{plan.metagame_host}:{plan.ports.metagame}
CONTENT_GAME_DIR={plan.data / "game"}
# after every change of the game's files, run svcctl content manifest
CONTENT_MANIFEST={plan.data / "manifest.json"}
# the file that starts the game, so that players need not enter it in the launcher
# CONTENT_GAME_PROGRAM=Game/Binaries/Win64/Game.exe
# the launcher that players download; svcctl content launcher FILE copies it there
CONTENT_LAUNCHER_DIR={plan.data / LAUNCHER}
{_figures(plan.ports.content_figures)}"""
    if plan.private:
        return text
    return f"""\
{text}# the same in gateway.env
GATEWAY_SECRET={plan.secrets.gateway.reveal()}
"""


def _gateway(plan: Plan) -> str:
    ports, secrets, live = plan.ports, plan.secrets, plan.scale.live
    more = (
        f"# 1: the page /join explains to players how to join\nGATEWAY_JOIN_PAGE={int(plan.demo)}\n"
    )
    if live:
        more += f"# several gateways share their rate limits there\nLIVE_URL={live}\n"
    return f"""\
# The public HTTPS entry; players pin its certificate.
GATEWAY_BIND={"127.0.0.1" if plan.demo else EVERYWHERE}
GATEWAY_PORT={ports.gateway}
GATEWAY_CERT={plan.folder / "gateway-cert.pem"}
GATEWAY_KEY={plan.folder / "gateway-key.pem"}
# the same in metagame.env and content.env
GATEWAY_SECRET={secrets.gateway.reveal()}
GATEWAY_METAGAME_URL=http://127.0.0.1:{ports.metagame}
GATEWAY_CONTENT_URL=http://127.0.0.1:{ports.content}
GATEWAY_WS_URL=http://127.0.0.1:{ports.chat}
ALLOWLIST_URL=http://127.0.0.1:{ports.allowlist}
# the same in allowlist.env
ALLOWLIST_SECRET={secrets.allowlist.reveal()}
{_figures(ports.gateway_figures)}{more}"""


def _allowlist(plan: Plan) -> str:
    text = f"""\
# Opens the UDP game ports for players' addresses.
# 1: only logs what it would do. 0: changes the host's firewall, which needs root.
ALLOWLIST_DRY_RUN=1
ALLOWLIST_BIND=127.0.0.1
ALLOWLIST_PORT={plan.ports.allowlist}
# the same in gateway.env
ALLOWLIST_SECRET={plan.secrets.allowlist.reveal()}
ALLOWLIST_PORTS={plan.ports.hunts}-{plan.ports.city}
ALLOWLIST_AUDIT_LOG={plan.data / "allowlist-audit.log"}
ALLOWLIST_STATE_FILE={plan.data / "allowlist-state.json"}
{_figures(plan.ports.allowlist_figures)}"""
    return text + "ALLOWLIST_ALLOW_PRIVATE=1\n" if plan.demo else text


def _relay(plan: Plan) -> str:
    return f"""\
# On a player's machine; svc-stack starts it only with --with-relay.
# Players use port 61000; on this host, the metagame uses that port.
SVC_RELAY_PORT={plan.ports.relay}
SVC_RELAY_HOST={plan.public_host}
SVC_RELAY_GATEWAY_PORT={plan.ports.gateway}
SVC_RELAY_FINGERPRINT={plan.fingerprint}
"""
