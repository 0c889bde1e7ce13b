"""The heartbeat, and the count of players online. Spec: 1 §4 Status; 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NotRequired, TypedDict

from attrs import frozen

from svcserver.kernel.json import Json
from svcserver.kernel.signals import Heard, Signal
from svcserver.metagame.play.presence.online import Online
from svcserver.web.routes import Access, Answer, Call, Routes, bare

NEXT_BEAT = b"20000"  # milliseconds until the client's next heartbeat
MAX_MAP = 512


class Heartbeat(TypedDict):
    """The map's path or bare name; in the menus there may be only a state."""

    map: NotRequired[str]
    state: NotRequired[str]


class OnlineCount(TypedDict):
    """Heard from in the last 90 seconds."""

    NumActivePlayers: int


@frozen
class Presence:
    """Heartbeats in, counts out."""

    routes: ClassVar[Routes] = Routes(bare)
    online: Online
    heard: Signal[Heard]
    now: Callable[[], float]

    @routes.row("POST", "/heartbeat", access=Access.TOKEN, body=object, sends=Heartbeat, reply=str)
    async def beat(self, call: Call) -> Answer:
        """Mark the player online; a game server's own beat records nothing."""
        account_id = call.caller.account
        if account_id is not None:
            map_path, state = _text(call.fields.get("map")), _text(call.fields.get("state"))
            self.online.hear(account_id, map_path, state, self.now())
            self.heard.send(Heard(account_id, map_path, state))
        return Answer(200, NEXT_BEAT, content_type="text/plain; charset=utf-8")

    @routes.row("GET", "/svc/api/PublicOnlineStats", access=Access.ACCOUNT_KEY, reply=OnlineCount)
    async def count(self, call: Call) -> Answer:
        """How many players are online."""
        return Answer(200, {"NumActivePlayers": self.online.count(self.now())})


def _text(value: Json) -> str:
    return value[:MAX_MAP] if isinstance(value, str) else ""
