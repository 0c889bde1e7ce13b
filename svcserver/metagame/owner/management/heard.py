"""Tells the deploy server on which game servers players are, by their heartbeats.

By that it knows one that only stutters from one that is frozen.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from svcserver.kernel.every import Every
from svcserver.metagame.owner.management.instances import DeployedInstances
from svcserver.metagame.owner.management.rules import Whereabouts
from svcserver.metagame.play.presence.feature import Online
from svcserver.metagame.play.presence.rules import place

EVERY_S = 5.0
MOST = 1_000  # game servers that are named at once


@define(eq=False)
class HeardPlayers:
    """Looks at the heartbeats since its last look; ``wall_clock`` gives epoch seconds."""

    online: Online
    placed: DeployedInstances
    city_map: str
    wall_clock: Callable[[], float]
    _looked: float = field(default=0.0, init=False)

    def look(self) -> Deferred[None]:
        """Name the game servers of those heard since the last look, if there are any."""
        return Deferred.fromCoroutine(self._look())

    async def _look(self) -> None:
        since, self._looked = self._looked, self.wall_clock()
        fresh = [
            Whereabouts(one.account_id, place(one.map, one.state, self.city_map), one.map)
            for one in await self.online.all()
            if one.at >= since
        ]
        if not fresh:
            return
        found = await self.placed.place(fresh)
        if found.of_player:
            await self.placed.deploy.hear(sorted(set(found.of_player.values()))[:MOST])


def heard_watch(heard: HeardPlayers, clock: IReactorTime) -> Every:
    """The service that looks every ``EVERY_S``."""
    return Every(clock, EVERY_S, heard.look, "telling the deploy server who was heard")
