"""The checklist for a new host: what is missing before players can play, and how to fix that.

The host checks each item itself: in its settings files, in the database, and by a connection to its
own public address.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, ClassVar, TypedDict

from attrs import define, field, frozen
from sqlalchemy import Connection, func, select
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.kernel import backups, json
from svcserver.kernel.digits import whole_in
from svcserver.kernel.roles import Role
from svcserver.kernel.settings import parse_env_file
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.accounts.networks import ACCOUNT_NETWORKS
from svcserver.metagame.accounts.store import ACCOUNTS, INVITE_CODES
from svcserver.metagame.replies import worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.routes import NO_STORE, Answer

log = Logger()
CONNECT_S = 3.0
CHECKED_S = 60.0  # between two connections to the public address
NAME = "Game Server"  # the default name
SIMULATOR = "svc-gameserver-sim"
NOTE = "README.txt"  # the owner's note in a folder for game files
SMALL = 4096  # bytes; a larger manifest certainly lists game files
PICTURES = (".jpg", ".jpeg", ".png", ".webp")
GATEWAY_PORT = 443

_INVITES = select(func.count()).select_from(INVITE_CODES)
_ACCOUNTS = select(func.count()).select_from(ACCOUNTS)
_NETWORKS = (
    select(ACCOUNT_NETWORKS.c.network)
    .distinct()
    .order_by(ACCOUNT_NETWORKS.c.network.desc())
    .limit(200)
)
Connect = Callable[[str, int], Awaitable[bool]]
"""A function that returns whether a TCP connection to a host and port succeeds."""


class CheckItem(TypedDict):
    """An item: whether it is done, its state in words, and what to do if it is not done."""

    id: str
    done: bool
    title: str
    state: str
    cure: str


class ChecklistReply(TypedDict):
    """The items of the checklist, in the order in which to do them."""

    items: list[CheckItem]


def item(id_: str, title: str, state: str, cure: str, *, done: bool) -> CheckItem:
    """Return an item of the checklist; an item that is done has no ``cure``."""
    return {"id": id_, "done": done, "title": title, "state": state, "cure": "" if done else cure}


def name_item(name: str, has_picture: bool) -> CheckItem:
    """Return the item about the host's name and picture, which players see in the launcher."""
    named = name != NAME
    state = f"Players see the name {name}" + ("" if has_picture else ", without a picture") + "."
    cure = "Set SERVER_NAME in metagame.env, and restart the metagame."
    if named:
        cure = (
            "Set CONTENT_BRANDING_DIR in content.env to a folder with pictures, and restart the "
            "content server."
        )
    return item("name", "Name and picture", state, cure, done=named and has_picture)


def game_server_item(deploy: Mapping[str, str], folder: Path) -> CheckItem:
    """Return the item that says whether the deploy server can start a real game server.

    In a swarm, the game server's program is not on the host, but in an image.
    """
    binary, image = (
        deploy.get(name, "").strip() for name in ("GAMESERVER_BINARY_PATH", "GAMESERVER_IMAGE")
    )
    path, in_swarm = folder / binary, deploy.get("GAMESERVER_ENGINE", "").strip() == "swarm"
    missing = "GAMESERVER_BINARY_PATH"
    if in_swarm and not image:
        state, missing = "No image for the swarm is set.", "GAMESERVER_IMAGE"
    elif not binary:
        state = "No game server is set."
    elif path.name == SIMULATOR:
        state = "The game server is the simulator, on which nobody can play."
    elif in_swarm:
        state = f"The swarm runs {binary} of the image {image}."
        return item("server", "Game server", state, "", done=True)
    elif not path.is_file():
        state = f"{path} does not exist."
    elif not os.access(path, os.X_OK):
        state = f"{path} cannot be run."
    else:
        return item("server", "Game server", f"{path.name} can be run.", "", done=True)
    cure = f"Set {missing} in deploy.env, and restart the deploy server."
    return item("server", "Game server", state, cure, done=False)


def game_files_item(manifest: Path | None) -> CheckItem:
    """Return the item that says whether the content server lists game files for launchers."""
    done = manifest is not None and _lists_a_game(manifest)
    state = "Launchers can download the game." if done else "No game files are listed."
    cure = "Copy the game into the folder of CONTENT_GAME_DIR, then run svcctl content manifest."
    return item("files", "Game files", state, cure, done=done)


def _lists_a_game(manifest: Path) -> bool:
    try:
        if manifest.stat().st_size > SMALL:
            return True
        listed = json.parse(manifest.read_bytes())["files"]
        return any(entry["path"] != NOTE for entry in listed)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def private_item(bind_host: str) -> CheckItem:
    """Return the item that says whether other machines can reach a host that has no gateway."""
    done = not _is_loopback(bind_host)
    state = "Only this machine can play."
    if done:
        state = f"Players reach the host at {bind_host} in your private network."
    cure = "Make a host with svcctl up that listens on your overlay network or is public."
    return item("ports", "Reachable by players", state, cure, done=done)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address in ("", "localhost")


def public_item(
    address: str, port: int, game_ports: str, networks: Iterable[str], *, reached: bool
) -> CheckItem:
    """Return the item that says whether players on the internet can reach a public host.

    Only a player's connection from the internet proves that players can reach the host. Before the
    first such connection, the item says whether the host itself can connect to its public address.
    """
    title, place = "Reachable from outside", f"{address}:{port}"
    if any(_is_global(network) for network in networks):
        state = f"Players have connected to {place} from the internet."
        return item("ports", title, state, "", done=True)
    state = f"Nobody has connected to {place} from the internet yet. "
    state += f"This machine {'reaches' if reached else 'does not reach'} that address."
    cure = f"Open TCP port {port} and UDP ports {game_ports} in your firewall and router."
    return item("ports", title, state, cure, done=False)


def _is_global(network: str) -> bool:
    try:
        return ip_network(network, strict=False).is_global
    except ValueError:
        return False


@define(eq=False)
class Checklist:
    """The checks; ``config`` returns the folder of ``metagame.env``, or None.

    ``data`` is the working directory of the services; paths in their settings are relative to it.
    """

    settings: MetagameSettings
    ledger: Ledger
    config: Callable[[], Path | None]
    channels: Callable[[], int]  # number of alert channels
    connect: Connect
    wall_clock: Callable[[], float]
    data: Path = field(factory=Path.cwd)
    _reached: tuple[float, str, bool] = field(default=(float("-inf"), "", False), init=False)

    async def items(self) -> list[CheckItem]:
        """Check and return all items."""
        deploy, content = self._read_env_file("deploy"), self._read_env_file("content")
        invites, accounts, networks = await self.ledger.read_snapshot(_known)
        manifest = content.get("CONTENT_MANIFEST", "")
        has_alerts, backup = self.channels() > 0, backups.read(self.data)
        has_backup = backup is not None and backup.newest is not None
        has_invite = invites > 0 or accounts > 1
        return [
            name_item(self.settings.server_name, self._has_picture(content)),
            game_server_item(deploy, self.data),
            game_files_item(self.data / manifest if manifest else None),
            await self._ports_item(deploy, networks),
            item(
                "alerts",
                "Alert channel",
                "There is a channel." if has_alerts else "There is no channel yet.",
                "Add one on the page Alerts, to be notified of faults.",
                done=has_alerts,
            ),
            item(
                "backup",
                "First backup",
                "There is a backup." if has_backup else "There is no backup yet.",
                "Wait for the nightly one, or make one on the page Backups.",
                done=has_backup,
            ),
            item(
                "invite",
                "First invite",
                "An invite exists." if has_invite else "Nobody is invited yet.",
                "Create one on the page Invites.",
                done=has_invite,
            ),
        ]

    async def _ports_item(self, deploy: Mapping[str, str], networks: list[str]) -> CheckItem:
        gateway, relay = self._read_env_file("gateway"), self._read_env_file("relay")
        if not gateway:
            return private_item(self.settings.bind_host)
        address = relay.get("SVC_RELAY_HOST", "")
        port = whole_in(gateway.get("GATEWAY_PORT", ""), 5) or GATEWAY_PORT
        first, last = (deploy.get(f"PORT_RANGE_{end}", "") for end in ("BEGIN", "END"))
        reached = await self._reaches(address, port)
        return public_item(address, port, f"{first} to {last}", networks, reached=reached)

    async def _reaches(self, address: str, port: int) -> bool:
        checked_at, place, reached = self._reached
        if place != f"{address} {port}" or not 0 <= self.wall_clock() - checked_at < CHECKED_S:
            reached = bool(address) and await self.connect(address, port)
            self._reached = self.wall_clock(), f"{address} {port}", reached
        return reached

    def _read_env_file(self, component: str) -> Mapping[str, str]:
        folder = self.config()
        if folder is None:
            return {}
        try:
            return parse_env_file((folder / f"{component}.env").read_text("utf-8-sig"))
        except (OSError, UnicodeDecodeError):
            return {}

    def _has_picture(self, content: Mapping[str, str]) -> bool:
        folder = content.get("CONTENT_BRANDING_DIR", "")
        try:
            names = os.listdir(self.data / folder) if folder else []
        except OSError:
            return False
        return any(name.lower().endswith(PICTURES) for name in names)


def _known(tx: Connection) -> tuple[int, int, list[str]]:
    """Return how many invites and accounts exist, and the networks that players log in from."""
    networks = [str(network) for network in tx.execute(_NETWORKS).scalars()]
    return tx.execute(_INVITES).scalar_one(), tx.execute(_ACCOUNTS).scalar_one(), networks


def tcp_connect(reactor: Any) -> Connect:
    """Return a function that tries a TCP connection for at most ``CONNECT_S``."""

    async def connect(host: str, port: int) -> bool:
        endpoint = HostnameEndpoint(reactor, host, port, timeout=CONNECT_S)
        trying = endpoint.connect(Factory.forProtocol(Protocol))
        try:
            made: Any = await trying.addTimeout(CONNECT_S, reactor)
        except Exception as error:  # refused, unknown name, no answer
            log.debug("{host}:{port}: {why}", host=host, port=port, why=repr(error))
            return False
        made.transport.abortConnection()
        return True

    return connect


@frozen
class ChecklistRoutes:
    """The route of the checklist, which only owners may read."""

    routes: ClassVar[Routes] = Routes(worded, access=Access.ADMIN_KEY, role=Role.OWNER)
    checklist: Checklist
    reads: ReadLimit

    @routes.row("GET", "/svc/api/DashboardChecklist", reply=ChecklistReply, quiet=True)
    async def items(self, call: Call) -> Answer:
        """List what a new host needs before players can play; each item says whether it is done."""
        await self.reads.take_of(call)
        reply: ChecklistReply = {"items": await self.checklist.items()}
        return Answer(200, reply, NO_STORE)
