"""The heartbeat and the number of players. Spec: 1 §4 Status; 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import OrEmpty
from svcserver.metagame.once import Again
from svcserver.metagame.play.presence import wire
from svcserver.metagame.play.presence.acts import PresenceActs
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer, bare

_NEXT_BEAT = Answer(200, wire.NEXT_BEAT, content_type="text/plain; charset=utf-8")


@frozen
class PresenceRoutes:
    """Receives heartbeats, and shows the number of online players."""

    routes: ClassVar[Routes] = Routes(bare)
    acts: PresenceActs
    came: Callable[[AccountId, HttpRequest], object] | None = None  # told who calls from where

    @routes.row(
        "POST",
        "/heartbeat",
        access=Access.TOKEN,
        body=OrEmpty[wire.Heartbeat],
        reply=str,
        again=Again.NATURAL,
    )
    async def beat(self, call: Call[wire.Heartbeat]) -> Answer:
        """Mark the player online; a game server's own heartbeat records nothing."""
        account_id = call.caller.account
        if account_id is not None:
            if self.came is not None:
                self.came(account_id, call.request)
            await self.acts.beat(account_id, call.body.map, call.body.state)
        return _NEXT_BEAT

    @routes.row(
        "GET", "/svc/api/PublicOnlineStats", access=Access.ACCOUNT_KEY, reply=wire.OnlineCount
    )
    async def count(self, call: Call) -> Answer:
        """The number of online players."""
        return Answer(200, {"NumActivePlayers": await self.acts.count()})
