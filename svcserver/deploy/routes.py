"""The deploy server's routes, for direct loopback callers. Spec: 2 §4 Deploy server.

The specification's two routes need no credential. All others need the machine's ticket.
"""

from __future__ import annotations

from typing import ClassVar

from attrs import field, frozen
from twisted.logger import Logger

from svcserver.deploy import wire
from svcserver.deploy.fleet import NoCapacity
from svcserver.deploy.handling import Handling
from svcserver.deploy.hunts import Unlaunchable
from svcserver.deploy.supervisor import Supervisor
from svcserver.kernel.headers import MATCH
from svcserver.kernel.redaction import printable
from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.web.local import LOCAL, OWNER
from svcserver.web.routes import Answer, Call, Needed, Routes

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
        body=wire.LaunchWish,
        reply=wire.HandedOut,
    )
    async def hand_out(self, call: Call[wire.LaunchWish]) -> Answer:
        """A game server for the request, as soon as it is spawned or ready."""
        wish, match = call.body.checked(), wire.match_of(call.request.header(MATCH))
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
        reply: wire.HandedOut = {"host": self.supervisor.host, "port": server.port}
        return Answer(200, reply)

    @routes.row("GET", "/gameservers", reply=wire.GameServers)
    async def game_servers(self, call: Call) -> Answer:
        """The records of all that live; they list account ids."""
        reply: wire.GameServers = {"servers": self.supervisor.records()}
        return Answer(200, reply)

    @routes.row("GET", "/gameservers/key", access=OWNER, reply=wire.KeyReply, query={"sha256": str})
    async def launch_key(self, call: Call) -> Answer:
        """Whether a key, named by its SHA-256, was made for a game server that lives."""
        asked = call.request.argument("sha256") or ""
        reply: wire.KeyReply = {"known": self.supervisor.knows_key(asked)}
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/gameservers/heard",
        access=OWNER,
        body=wire.HeardWish,
        reply=wire.HeardReply,
        quiet=True,
    )
    async def heard(self, call: Call[wire.HeardWish]) -> Answer:
        """Players on these were heard: who reads nothing meanwhile is not taken for frozen."""
        fleet = self.supervisor.fleet
        fleet.hear(call.body.ids, self.supervisor.clock.seconds())
        reply: wire.HeardReply = {"known": sum(one in fleet.servers for one in call.body.ids)}
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/gameservers/handle",
        access=OWNER,
        body=wire.HandlingWish,
        reply=wire.Handled,
        refuse=refuse_with_words,
    )
    async def handle(self, call: Call[wire.HandlingWish]) -> Answer:
        """Start, stop or restart one, for the owner."""
        sent = call.body
        made = await self.handling.act(sent.act, sent.id, sent.kind)
        reply: wire.Handled = {"id": made}
        return Answer(200, reply)

    @routes.row(
        "GET",
        "/gameservers/console",
        access=OWNER,
        reply=wire.Console,
        query={"id": Needed(str)},
        refuse=refuse_with_words,
    )
    async def console(self, call: Call) -> Answer:
        """The last lines that one has printed."""
        lines = self.handling.console(call.request.argument("id") or "")
        reply: wire.Console = {"lines": lines}
        return Answer(200, reply)
