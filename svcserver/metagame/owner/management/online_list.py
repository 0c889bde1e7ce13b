"""``GET /svc/api/PrivateOnlineStats``: who is online and in which hunt. Spec: 2 §2 Online entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypedDict

from attrs import frozen

from svcserver.kernel.launch_requests import ISLAND, LaunchRequest
from svcserver.kernel.times import iso
from svcserver.metagame.play.matchmaking.matches import Sent, is_world
from svcserver.metagame.play.matchmaking.rules import Matchmaker
from svcserver.metagame.play.presence.online import Beat, Online
from svcserver.metagame.play.presence.places import Place, place
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Access, Answer, Call, Routes, bare


class OnlineEntry(TypedDict):
    """A player online; the last two are null outside a hunt we sent them to."""

    UserId: str
    Map: str
    HuntId: str | None
    EnteredHuntAt: str | None


@frozen
class OnlineList:
    """The list for the owner."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    online: Online
    matchmaker: Matchmaker
    now: Callable[[], float]

    @routes.row(
        "GET", "/svc/api/PrivateOnlineStats", access=Access.ADMIN_KEY, reply=list[OnlineEntry]
    )
    async def everyone(self, call: Call) -> Answer:
        """Everyone online, by account id."""
        beats = sorted(self.online.all(self.now()), key=lambda beat: beat.account_id)
        return Answer(200, [self._entry(beat) for beat in beats])

    def _entry(self, beat: Beat) -> OnlineEntry:
        sent = self._hunt(beat)
        return {
            "UserId": beat.account_id,
            "Map": beat.map,
            "HuntId": None if sent is None else sent.hunt_id,
            "EnteredHuntAt": None if sent is None else iso(sent.at),
        }

    def _hunt(self, beat: Beat) -> Sent | None:
        """The hunt the player was last sent to, while the heartbeat says they are in one."""
        if place(beat.map, beat.state, self.settings.city_map) is not Place.HUNT:
            return None
        sent = self.matchmaker.last_sent(beat.account_id)
        if sent is None or is_world(LaunchRequest(ISLAND, "", sent.hunt_id)):
            return None
        return sent
