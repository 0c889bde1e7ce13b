"""The deploy server's routes, for direct loopback callers. Spec: 2 §4 Deploy server."""

from __future__ import annotations

from typing import ClassVar, TypedDict

from attrs import frozen
from twisted.logger import Logger

from svcserver.deploy.fleet import GameServerRecord, NoCapacity
from svcserver.deploy.hunts import Unlaunchable
from svcserver.deploy.supervisor import Supervisor
from svcserver.kernel.launch_requests import check_body
from svcserver.kernel.refusals import Malformed, Refusal
from svcserver.web.routes import Access, Answer, Call, Routes

log = Logger()

RETRY_S = "10"
MAX_JSON = 100 * 1024  # bytes of a body


class HandedOut(TypedDict):
    """Where the player goes."""

    host: str
    port: int


class GameServers(TypedDict):
    """Every game server alive now."""

    servers: list[GameServerRecord]


class KeyReply(TypedDict):
    """Whether the key belongs to a launch whose game server lives."""

    known: bool


def refuse(status: int, refusal: Refusal) -> Answer:
    """``bad_request`` in words; every other refusal is bare."""
    if isinstance(refusal, Malformed):
        return Answer(status, {"error": "bad_request", "message": refusal.message})
    return Answer(status)


@frozen
class Deploy:
    """What the metagame asks."""

    routes: ClassVar[Routes] = Routes(refuse)
    supervisor: Supervisor

    @routes.row(
        "POST",
        "/api/matchmaker/handle-matchmaking-for-player",
        access=Access.LOCAL,
        body=object,
        reply=HandedOut,
    )
    async def hand_out(self, call: Call) -> Answer:
        """A game server for the wish, as soon as it is spawned."""
        if not isinstance(call.body, dict):
            raise Malformed("the body must be a JSON object")
        wish = check_body(call.body)
        log.info(
            "Handling matchmaking GameMode={mode} HuntId={hunt} GameArgs={args}",
            mode=wish.game_mode,
            hunt=wish.hunt_id,
            args=wish.game_args[:256],
        )
        try:
            server = await self.supervisor.hand_out(wish)
        except NoCapacity as why:
            body = {"error": "capacity_unavailable", "reason": why.reason}
            return Answer(503, body, {"Retry-After": RETRY_S})
        except Unlaunchable as why:
            log.warn("no game server: {why}", why=str(why))
            return Answer(500, {"error": "no_game_server"})
        reply: HandedOut = {"host": self.supervisor.host, "port": server.port}
        return Answer(200, reply)

    @routes.row("GET", "/gameservers", access=Access.LOCAL, reply=GameServers)
    async def game_servers(self, call: Call) -> Answer:
        """The records of all that live; they list account ids."""
        reply: GameServers = {"servers": self.supervisor.records()}
        return Answer(200, reply)

    @routes.row("GET", "/gameservers/key", access=Access.LOCAL, reply=KeyReply, query=("sha256",))
    async def launch_key(self, call: Call) -> Answer:
        """Whether a key, named by its SHA-256, was made for a game server that lives."""
        asked = call.request.argument("sha256") or ""
        reply: KeyReply = {"known": self.supervisor.knows_key(asked)}
        return Answer(200, reply)
