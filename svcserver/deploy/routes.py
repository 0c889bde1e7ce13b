"""The deploy server's routes, for direct loopback callers. Spec: 2 §4 Deploy server.

The specification's two routes need no credential. All others need the machine's ticket."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypedDict

from attrs import field, frozen
from twisted.logger import Logger

from svcserver.deploy.fleet import GameServerRecord, NoCapacity
from svcserver.deploy.handling import Handling
from svcserver.deploy.hunts import Unlaunchable
from svcserver.deploy.supervisor import Supervisor
from svcserver.kernel.headers import MATCH
from svcserver.kernel.launch_requests import MAX_PLAYERS, LaunchRequest, check, is_match, is_player
from svcserver.kernel.redaction import printable
from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.kernel.shapes import AtMost, TextWithNul, pascal_case, spelled, text, text_where
from svcserver.web.local import LOCAL, OWNER
from svcserver.web.routes import Answer, Call, Needed, Routes

MOST_HEARD = 1_000
PlayerId = Annotated[str, text_where(is_player, "an account id")]


@spelled(pascal_case)
@frozen
class LaunchWish:
    """A request to launch a game server, for these account ids."""

    game_mode: TextWithNul | None = None
    game_args: TextWithNul | None = None
    hunt_id: TextWithNul | None = None
    expected_players: Annotated[tuple[PlayerId, ...], AtMost(MAX_PLAYERS)] | None = None

    def checked(self) -> LaunchRequest:
        """The validated request; raises Malformed."""
        return check(self.game_mode, self.game_args, self.hunt_id, self.expected_players or ())


def match_of(sent: str | None) -> str:
    """The match of a launch as its header names it, empty where it names none; raises Malformed."""
    if sent is not None and not is_match(sent):
        raise Malformed("X-Svc-Match must be a match id")
    return sent or ""


@spelled(pascal_case)
@frozen
class HandlingWish:
    """Start a kind (city, dojo), or stop or restart one game server."""

    act: Annotated[str, text(1, 16)]
    id: Annotated[str, text(0, 64)] = ""
    kind: Annotated[str, text(0, 16)] = ""


@spelled(pascal_case)
@frozen
class HeardWish:
    """Game servers, by id, of whose players a heartbeat has just come."""

    ids: Annotated[tuple[Annotated[str, text(1, 64)], ...], AtMost(MOST_HEARD)]


class HeardReply(TypedDict):
    """How many of them run here."""

    known: int


class Handled(TypedDict):
    """It is done; the server that runs now, null after a stop."""

    id: str | None


class Console(TypedDict):
    """The last lines that a game server has printed."""

    lines: list[str]


class HandedOut(TypedDict):
    """The game server's UDP address."""

    host: str
    port: int


class GameServers(TypedDict):
    """The reply of ``GET /gameservers``: those that run now."""

    servers: list[GameServerRecord]


class KeyReply(TypedDict):
    """Whether the key belongs to a running game server."""

    known: bool


log = Logger()

RETRY_S = "10"
MAX_LOGGED = 256  # characters of a launch's arguments in the log
MAX_JSON = 100 * 1024  # bytes of a body


def refuse(status: int, refusal: Refusal) -> Answer:
    """``bad_request`` with a message for Malformed; an empty body for every other refusal."""
    if isinstance(refusal, Malformed):
        return Answer(status, {"error": "bad_request", "message": refusal.message})
    return Answer(status)


def refuse_with_words(status: int, refusal: Refusal) -> Answer:
    """A message wherever there is one, for the owner."""
    return Answer(status, {"error": "refused", "message": refusal.message})


@frozen
class Deploy:
    """The routes that the metagame calls."""

    routes: ClassVar[Routes] = Routes(refuse, access=LOCAL)
    supervisor: Supervisor
    handling: Handling = field(init=False)

    @handling.default
    def _handling(self) -> Handling:
        return Handling(self.supervisor)

    @routes.row(
        "POST",
        "/api/matchmaker/handle-matchmaking-for-player",
        body=LaunchWish,
        reply=HandedOut,
    )
    async def hand_out(self, call: Call[LaunchWish]) -> Answer:
        """A game server for the request, as soon as it is spawned or ready."""
        wish, match = call.body.checked(), match_of(call.request.header(MATCH))
        log.info(
            "Handling matchmaking GameMode={mode} HuntId={hunt} GameArgs={args}",
            mode=wish.game_mode,
            hunt=wish.hunt_id,
            args=printable(wish.game_args, MAX_LOGGED),
        )
        try:
            server = await self.supervisor.hand_out(wish, match)
        except NoCapacity as why:
            body = {"error": "capacity_unavailable", "reason": why.reason}
            return Answer(503, body, {"Retry-After": RETRY_S})
        except Unlaunchable as why:
            log.warn("no game server: {why}", why=str(why))
            return Answer(500, {"error": "no_game_server"})
        reply: HandedOut = {"host": self.supervisor.host, "port": server.port}
        return Answer(200, reply)

    @routes.row("GET", "/gameservers", reply=GameServers)
    async def game_servers(self, call: Call) -> Answer:
        """The records of all that live; they list account ids."""
        reply: GameServers = {"servers": self.supervisor.records()}
        return Answer(200, reply)

    @routes.row("GET", "/gameservers/key", access=OWNER, reply=KeyReply, query={"sha256": str})
    async def launch_key(self, call: Call) -> Answer:
        """Whether a key, named by its SHA-256, was made for a game server that lives."""
        asked = call.request.argument("sha256") or ""
        reply: KeyReply = {"known": self.supervisor.knows_key(asked)}
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/gameservers/heard",
        access=OWNER,
        body=HeardWish,
        reply=HeardReply,
        quiet=True,
    )
    async def heard(self, call: Call[HeardWish]) -> Answer:
        """Players on these were heard: who reads nothing meanwhile is not taken for frozen."""
        fleet = self.supervisor.fleet
        fleet.hear(call.body.ids, self.supervisor.clock.seconds())
        reply: HeardReply = {"known": sum(one in fleet.servers for one in call.body.ids)}
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/gameservers/handle",
        access=OWNER,
        body=HandlingWish,
        reply=Handled,
        refuse=refuse_with_words,
    )
    async def handle(self, call: Call[HandlingWish]) -> Answer:
        """Start, stop or restart one, for the owner."""
        sent = call.body
        made = await self.handling.act(sent.act, sent.id, sent.kind)
        reply: Handled = {"id": made}
        return Answer(200, reply)

    @routes.row(
        "GET",
        "/gameservers/console",
        access=OWNER,
        reply=Console,
        query={"id": Needed(str)},
        refuse=refuse_with_words,
    )
    async def console(self, call: Call) -> Answer:
        """The last lines that one has printed."""
        lines = self.handling.console(call.request.argument("id") or "")
        reply: Console = {"lines": lines}
        return Answer(200, reply)
