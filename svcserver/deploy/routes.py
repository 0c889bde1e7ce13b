"""The deploy server's routes, for programs on the same machine. Spec: 2 §4 Deploy server.

The routes that start and list game servers need no credential, as the specification defines. All
other routes need a ticket that is signed with the host's key (``kernel.machine``).
"""

from typing import Annotated, ClassVar, NotRequired, TypedDict

from attrs import field, frozen
from twisted.logger import Logger

from svcserver.deploy.console import OutputPart
from svcserver.deploy.datagrams import DatagramTrial
from svcserver.deploy.fleet import GameServerRecord, MachineRecord, NoCapacity
from svcserver.deploy.hunts import Unlaunchable
from svcserver.deploy.launch_history import PastLaunch
from svcserver.deploy.owner_actions import OwnerActions
from svcserver.deploy.supervisor import Supervisor
from svcserver.kernel.envelope import Empty
from svcserver.kernel.headers import MATCH
from svcserver.kernel.launch_requests import LaunchRequest, check, is_match, is_player
from svcserver.kernel.redaction import printable
from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.kernel.shapes import AtMost, TextWithNul, pascal_case, spelled, text, text_where
from svcserver.kernel.times import DAY_S
from svcserver.web.local import OWNER
from svcserver.web.routes import EMPTY_OBJECT, Answer, Needed, WebCall, WebRoutes

MOST_HEARTBEATS = 1_000
MAX_PLAYERS = 16
LOCAL = "local"  # the access label of routes without a ticket, for programs on this machine
PlayerId = Annotated[str, text_where(is_player, "an account id")]


@spelled(pascal_case)
@frozen
class LaunchBody:
    """A request to launch a game server for the accounts in ``expected_players``."""

    game_mode: TextWithNul | None = None
    game_args: TextWithNul | None = None
    hunt_id: TextWithNul | None = None
    expected_players: Annotated[tuple[PlayerId, ...], AtMost(MAX_PLAYERS)] | None = None

    def checked(self) -> LaunchRequest:
        """Return the validated request; raises Malformed."""
        return check(self.game_mode, self.game_args, self.hunt_id, self.expected_players or ())


def match_of(sent: str | None) -> str:
    """Return a header's value if it is a match id, or "" for no header; raises Malformed."""
    if sent is not None and not is_match(sent):
        raise Malformed("X-Svc-Match must be a match id")
    return sent or ""


@spelled(pascal_case)
@frozen
class OwnerActionBody:
    """A request to start, stop or restart one game server, or to drain a machine."""

    act: Annotated[str, text(1, 16)]
    id: Annotated[str, text(0, 64)] = ""
    kind: Annotated[str, text(0, 16)] = ""


@spelled(pascal_case)
@frozen
class HeartbeatsBody:
    """The ids of game servers whose players have just sent a heartbeat."""

    ids: Annotated[tuple[Annotated[str, text(1, 64)], ...], AtMost(MOST_HEARTBEATS)]


class HeartbeatsReply(TypedDict):
    """The reply to heartbeats; ``known`` is how many of the named servers run here."""

    known: int


class OwnerActionReply(TypedDict):
    """The id of the city or dojo after a start or restart; null after any other action."""

    id: str | None


class ConsoleLines(TypedDict):
    """The last lines of a game server's output."""

    lines: list[str]


class HandedOut(TypedDict):
    """The game server's UDP address, which is passed on to the players.

    ``node`` is the id of the server's machine in a swarm.
    """

    host: str
    port: int
    node: NotRequired[str]


class GameServers(TypedDict):
    """The reply to ``GET /gameservers``: the game servers that run now."""

    servers: list[GameServerRecord]


class UsageEntry(TypedDict):
    """The memory and the CPU time that a game server uses.

    CPU time is in percent of one core; it is null if it is unknown.
    """

    id: str
    memoryBytes: int
    cpuPercent: float | None


class GameServersInUse(TypedDict):
    """The running game servers with their usage.

    ``launches`` is a number that changes whenever the launch history changes.
    """

    servers: list[GameServerRecord]
    usage: list[UsageEntry]
    launches: int


class ListedLaunch(PastLaunch):
    """A past launch; ``hasOutput`` is true if the game server's last output can be read."""

    hasOutput: bool


class MachineList(TypedDict):
    """The machines that run game servers.

    The list is empty if only the deploy server's own machine runs game servers.
    """

    machines: list[MachineRecord]


@spelled(pascal_case)
@frozen
class AgentCheckBody:
    """The id of the machine to check."""

    node: Annotated[str, text(1, 64)]


class AgentCheck(TypedDict):
    """The image that the machine needs, and the test of its game ports (null: no test)."""

    image: str
    trial: DatagramTrial | None


class Launches(TypedDict):
    """The most recently ended launches, newest first."""

    launches: list[ListedLaunch]


class KeyReply(TypedDict):
    """The running game server that has the key; ``known`` is false if no server has it.

    ``node`` is the id of the server's machine in a swarm, and ``match`` the match for which the
    server was started. ``players`` are the players whom the launch request named. After a day the
    list is empty, so that a hostile machine cannot act for these players forever.
    """

    known: bool
    kind: NotRequired[str]
    host: NotRequired[str]
    port: NotRequired[int]
    node: NotRequired[str]
    match: NotRequired[str]
    players: NotRequired[list[str]]


log = Logger()

RETRY_S = "10"
MAX_LOGGED = 256  # characters of a launch's arguments in the log


def refuse(status: int, refusal: Refusal) -> Answer:
    """Return an answer with a message for Malformed, and without a body for other refusals."""
    if isinstance(refusal, Malformed):
        return Answer(status, {"error": "bad_request", "message": refusal.message})
    return Answer(status)


def refuse_with_message(status: int, refusal: Refusal) -> Answer:
    """Return an answer with the refusal's message."""
    return Answer(status, {"error": "refused", "message": refusal.message})


@frozen
class Deploy:
    """The routes of the deploy server, which the metagame calls."""

    routes: ClassVar[WebRoutes] = WebRoutes(refuse, access=LOCAL)
    supervisor: Supervisor
    actions: OwnerActions = field(init=False)

    @actions.default
    def _actions(self) -> OwnerActions:
        return OwnerActions(self.supervisor)

    @routes.row(
        "POST",
        "/api/matchmaker/handle-matchmaking-for-player",
        body=LaunchBody,
        reply=HandedOut,
    )
    async def hand_out(self, call: WebCall[LaunchBody]) -> Answer:
        """Start a game server, or find a running one, and return its address.

        If the deploy server is configured to wait, the reply is sent when the game server is ready.
        Otherwise the reply is sent when the game server has started.
        """
        request, match = call.body.checked(), match_of(call.request.header(MATCH))
        log.info(
            "Handling matchmaking GameMode={mode} HuntId={hunt} GameArgs={args}",
            mode=request.game_mode,
            hunt=request.hunt_id,
            args=printable(request.game_args, MAX_LOGGED),
        )
        try:
            server = await self.supervisor.hand_out(request, match)
        except NoCapacity as error:
            self.supervisor.shortages += error.reason == "memory"
            body = {"error": "capacity_unavailable", "reason": error.reason}
            return Answer(503, body, {"Retry-After": RETRY_S})
        except Unlaunchable as error:
            log.warn("no game server: {why}", why=str(error))
            return Answer(500, {"error": "no_game_server"})
        reply: HandedOut = {"host": server.host or self.supervisor.host or "", "port": server.port}
        if server.node:
            reply["node"] = server.node
        return Answer(200, reply)

    @routes.row("GET", "/gameservers", reply=GameServers)
    async def game_servers(self, call: WebCall) -> Answer:
        """List all running game servers; the records contain account ids."""
        reply: GameServers = {"servers": self.supervisor.records()}
        return Answer(200, reply)

    @routes.row("GET", "/gameservers/key", access=OWNER, reply=KeyReply, query={"sha256": str})
    async def launch_key(self, call: WebCall) -> Answer:
        """Return the running game server whose launch key has this SHA-256."""
        key_hash = call.request.argument("sha256") or ""
        server = self.supervisor.find_key(key_hash)
        if server is None:
            return Answer(200, {"known": False})
        is_recent = self.supervisor.wall_clock() - server.started_at < DAY_S
        reply: KeyReply = {
            "known": True,
            "kind": server.launch.kind.value,
            "host": server.host or self.supervisor.host or "",
            "port": server.port,
            "node": server.node,
            "match": server.launch.match_id,
            "players": list(server.launch.players) if is_recent else [],
        }
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/gameservers/heard",
        access=OWNER,
        body=HeartbeatsBody,
        reply=HeartbeatsReply,
        quiet=True,
    )
    async def note_heartbeats(self, call: WebCall[HeartbeatsBody]) -> Answer:
        """Record the game servers whose players send heartbeats; these do not count as frozen."""
        fleet = self.supervisor.fleet
        fleet.note_heartbeats(call.body.ids, self.supervisor.clock.seconds())
        reply: HeartbeatsReply = {
            "known": sum(server_id in fleet.servers for server_id in call.body.ids)
        }
        return Answer(200, reply)

    @routes.row("POST", "/gameservers/look", access=OWNER, reply=Empty, quiet=True)
    async def look(self, call: WebCall) -> Answer:
        """Check the swarm now, because a game server has started or ended there."""
        self.supervisor.look()
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/gameservers/handle",
        access=OWNER,
        body=OwnerActionBody,
        reply=OwnerActionReply,
        refuse=refuse_with_message,
    )
    async def handle(self, call: WebCall[OwnerActionBody]) -> Answer:
        """Start, stop or restart one game server, or drain a machine, for the owner."""
        body = call.body
        server_id = await self.actions.apply_action(body.act, body.id, body.kind)
        reply: OwnerActionReply = {"id": server_id}
        return Answer(200, reply)

    @routes.row(
        "GET",
        "/gameservers/console",
        access=OWNER,
        reply=ConsoleLines,
        query={"id": Needed(str)},
        refuse=refuse_with_message,
    )
    async def console(self, call: WebCall) -> Answer:
        """Return the last lines of a game server's output."""
        lines = self.actions.console(call.request.argument("id") or "")
        reply: ConsoleLines = {"lines": lines}
        return Answer(200, reply)

    @routes.row(
        "GET",
        "/gameservers/output",
        access=OWNER,
        reply=OutputPart,
        query={"id": Needed(str), "after": str},
        refuse=refuse_with_message,
        quiet=True,
    )
    async def output(self, call: WebCall) -> Answer:
        """Return a game server's output after the cursor ``?after=``, or its last lines.

        The output of a game server that has ended can be read, too.
        """
        server_id, cursor = (call.request.argument(name) or "" for name in ("id", "after"))
        return Answer(200, self.actions.output_after(server_id, cursor))

    @routes.row("GET", "/gameservers/usage", access=OWNER, reply=GameServersInUse, quiet=True)
    async def in_use(self, call: WebCall) -> Answer:
        """List the running game servers with the memory and CPU time that they use."""
        reply: GameServersInUse = {
            "servers": self.supervisor.records(),
            "usage": [
                {"id": server_id, "memoryBytes": use.memory_bytes, "cpuPercent": use.cpu_percent}
                for server_id, use in self.supervisor.usage().items()
            ],
            "launches": self.supervisor.history.count,
        }
        return Answer(200, reply)

    @routes.row("GET", "/gameservers/machines", access=OWNER, reply=MachineList, quiet=True)
    async def machines(self, call: WebCall) -> Answer:
        """List the machines of the swarm, with their memory and hunts."""
        reply: MachineList = {"machines": self.supervisor.machines()}
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/gameservers/check",
        access=OWNER,
        body=AgentCheckBody,
        reply=AgentCheck,
        quiet=True,
    )
    async def begin_check(self, call: WebCall[AgentCheckBody]) -> Answer:
        """Begin a test of a machine's game ports; return the data that the agent needs."""
        trials = self.supervisor.trials
        reply: AgentCheck = {
            "image": self.supervisor.image,
            "trial": None if trials is None else trials.begin(call.body.node),
        }
        return Answer(200, reply)

    @routes.row("GET", "/gameservers/history", access=OWNER, reply=Launches)
    async def history(self, call: WebCall) -> Answer:
        """List the last launches that have ended, and how each ended."""
        ids = self.supervisor.ended_outputs.ids()
        launches = self.supervisor.history.newest()
        reply: Launches = {
            "launches": [{**launch, "hasOutput": launch["id"] in ids} for launch in launches]
        }
        return Answer(200, reply)
