"""What a heartbeat does, and how many players are online."""

from __future__ import annotations

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import Heard, Signal
from svcserver.metagame.play.presence.rules import LONGEST
from svcserver.metagame.play.presence.store import Online


@frozen
class PresenceActs:
    """Marks players online; ``heard`` is sent for each sign of life."""

    online: Online
    heard: Signal[Heard]

    async def beat(self, account_id: AccountId, map_path: str, state: str) -> None:
        """Mark the player online, at that place."""
        there, doing = map_path[:LONGEST], state[:LONGEST]
        await self.online.hear(account_id, there, doing)
        if self.heard.listeners:
            self.heard.send(Heard(account_id, there, doing))

    async def count(self) -> int:
        """How many players were heard of within the last 90 s."""
        return await self.online.count()
