"""Reads of people, an owner's acts on an account, and the watch that notes who is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS, Ledger, OneAccount
from svcserver.db.shield import shielded
from svcserver.kernel.every import Every
from svcserver.kernel.ids import AccountId
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.audit import Act, Audit, Entry
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.moderation.rules import person
from svcserver.metagame.owner.moderation.store import Ended, id_of
from svcserver.metagame.owner.people.rules import Listed, Order, Person
from svcserver.metagame.owner.people.store import Keyed, PersonWork, Removed, SqlPeople
from svcserver.metagame.owner.wire import AccountExport
from svcserver.metagame.play.presence.rules import Place, place
from svcserver.metagame.play.presence.store import Beat, Online

log = Logger()
T = TypeVar("T")

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


@frozen
class HandlingActs:
    """What an owner does to an account: one transaction each, its audit row in it."""

    audit: Audit
    sessions: Sessions

    async def new_key(self, staff: Staff, who: str, reason: str) -> Keyed:
        """Another key in place of a lost one."""
        made = await self._do(staff, "new key", who, reason, self._work(staff, who).new_key())
        await self._tell(made.ended)
        return made

    async def merge_notes(
        self, staff: Staff, who: str, to: str, reason: str
    ) -> tuple[Account, Account, int]:
        """Give one account's notes to another."""
        act = self._work(staff, who).merge_notes(to)
        return await self._do(staff, "merge notes", who, reason, act)

    async def export(self, staff: Staff, who: str, reason: str) -> AccountExport:
        """All that is kept of an account."""
        return await self._do(staff, "export", who, reason, self._work(staff, who).export())

    async def delete(self, staff: Staff, who: str, reason: str) -> Removed:
        """Delete an account, and hand out what was kept of it."""
        gone = await self._do(staff, "delete", who, reason, self._work(staff, who).delete())
        await self._tell(gone.ended)
        return gone

    def _work(self, staff: Staff, who: str) -> PersonWork:
        return PersonWork(staff, who, self.audit.now)

    @shielded
    async def _do(self, staff: Staff, action: str, who: str, reason: str, act: Act[T]) -> T:
        # the account's own acts wait for it; what it has with others is deleted as it stands then
        entry = Entry(staff.name, action, who, reason)
        done = await self.audit.write(entry, act, OneAccount(await id_of(self.audit.ledger, who)))
        log.info("{actor}: {action} {name}", actor=staff.name, action=action, name=who)
        return done

    async def _tell(self, ended: Ended) -> None:
        await self.sessions.tell(ended.account_id, ended.not_before)


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
