"""Reads of people, one transaction each, and the watch that notes when they are seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from svcserver.db.ledger import ACROSS, Ledger
from svcserver.kernel.every import Every
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.moderation.rules import person
from svcserver.metagame.owner.people.rules import Listed, Order, Person
from svcserver.metagame.owner.people.store import SqlPeople
from svcserver.metagame.play.presence.rules import Place, place
from svcserver.metagame.play.presence.store import Beat, Online

SEEN_EVERY_S = 20.0


@frozen
class PeopleActs:
    """Accounts for the owner: lists, and all of one."""

    ledger: Ledger
    online: Online
    city_map: str
    now: Callable[[], float]

    async def listed(self, order: Order, text: str, skip: int, count: int) -> list[Listed]:
        """``count`` accounts after ``skip`` whose name or id holds ``text``."""
        now = self.now
        return await self.ledger.read(
            lambda tx: SqlPeople(tx).listed(order, text, skip, count, now())
        )

    async def where(self) -> Mapping[AccountId, Place]:
        """The kind of place of everybody online."""
        beats = await self.online.all()
        return {one.account_id: place(one.map, one.state, self.city_map) for one in beats}

    async def person(self, who: str) -> Person:
        """The account of that name or id; raises Missing."""
        return await self.ledger.read(
            lambda tx: SqlPeople(tx).person(person(SqlAccounts(tx), who), self.now())
        )


@define(eq=False)
class Seen:
    """Notes in the database when players were last heard of."""

    ledger: Ledger
    online: Online
    _kept: dict[AccountId, int] = field(factory=dict, init=False)

    def look(self) -> Deferred[None]:
        """Keep what is new since the last look."""
        return Deferred.fromCoroutine(self._look())

    async def _look(self) -> None:
        beats: list[Beat] = await self.online.all()
        heard = {one.account_id: int(one.at) for one in beats}
        new = {one: at for one, at in heard.items() if self._kept.get(one) != at}
        if new:
            await self.ledger.write(lambda tx: SqlPeople(tx).keep_seen(new), ACROSS)
        self._kept = heard


def seen_watch(clock: IReactorTime, seen: Seen) -> Every:
    """The service that looks every ``SEEN_EVERY_S``."""
    return Every(clock, SEEN_EVERY_S, seen.look, "noting who is online")
