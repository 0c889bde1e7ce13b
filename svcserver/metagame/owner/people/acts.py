"""Reads of people, an owner's acts on an account, and the watch that notes who is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from attrs import define, field, frozen
from sqlalchemy import Connection
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS, Ledger, OneAccount
from svcserver.db.shield import shielded
from svcserver.kernel.every import Every
from svcserver.kernel.ids import AccountId
from svcserver.kernel.times import iso
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.audit import Act, Audit, Entry, Trace
from svcserver.metagame.accounts.directory import id_of
from svcserver.metagame.accounts.rules import Account, Ended, end_sessions, new_account_key
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.moderation.rules import person
from svcserver.metagame.owner.people.data import exported
from svcserver.metagame.owner.people.rules import (
    Listed,
    Order,
    Person,
    check_deletable,
    check_merge,
    check_owner,
)
from svcserver.metagame.owner.people.store import SqlPeople, remove
from svcserver.metagame.owner.wire import AccountExport
from svcserver.metagame.play.presence.feature import Online
from svcserver.metagame.play.presence.rules import Beat, Place, place
from svcserver.metagame.social.guilds.store import SqlGuilds

log = Logger()
T = TypeVar("T")

SEEN_EVERY_S = 20.0


@frozen
class PeopleActs:
    """Accounts for the owner: lists, and all of one."""

    ledger: Ledger
    online: Online
    city_map: str
    wall_clock: Callable[[], float]

    async def listed(self, order: Order, text: str, skip: int, count: int) -> list[Listed]:
        """``count`` accounts after ``skip`` whose name or id holds ``text``."""
        wall_clock = self.wall_clock
        return await self.ledger.read(
            lambda tx: SqlPeople(tx).listed(order, text, skip, count, wall_clock())
        )

    async def where(self) -> Mapping[AccountId, Place]:
        """The kind of place of everybody online."""
        beats = await self.online.all()
        return {one.account_id: place(one.map, one.state, self.city_map) for one in beats}

    async def person(self, who: str) -> Person:
        """The account of that name or id; raises Missing."""
        return await self.ledger.read(
            lambda tx: SqlPeople(tx).person(person(SqlAccounts(tx), who), self.wall_clock())
        )


@frozen
class Keyed:
    """An account with a fresh key; its sessions have ended."""

    account: Account
    key: str = field(repr=False)
    ended: Ended


@frozen
class Removed:
    """A deleted account: all that was kept of it, without secrets."""

    account: Account
    export: AccountExport = field(repr=False)
    ended: Ended


@frozen
class PersonWork:
    """Makes the acts of an owner on the account called ``who``."""

    staff: Staff
    who: str
    wall_clock: Callable[[], float]

    def new_key(self) -> Act[Keyed]:
        """Another key in place of a lost one; whoever is logged in by the old one is logged off."""

        def act(tx: Connection, trace: Trace) -> Keyed:
            account, accounts = self._owned(tx, trace), SqlAccounts(tx)
            key = new_account_key()
            accounts.replace_key(account.id, key)
            return Keyed(account, key, self._end(tx, account))

        return act

    def merge_notes(self, other: str) -> Act[tuple[Account, Account, int]]:
        """Give the notes of ``who`` to ``other``; returns both as they were, and how many."""

        def act(tx: Connection, trace: Trace) -> tuple[Account, Account, int]:
            source, target = self._owned(tx, trace), person(SqlAccounts(tx), other)
            check_merge(source, target)
            trace.before = {source.username: source.notes, target.username: target.notes}
            moved = source.notes
            for one, more in ((source, -moved), (target, moved)):
                SqlPeople(tx).add_notes(one.id, more)
            trace.after = {source.username: 0, target.username: target.notes + moved}
            return source, target, moved

        return act

    def export(self) -> Act[AccountExport]:
        """All that is kept of the account, without secrets."""

        def act(tx: Connection, trace: Trace) -> AccountExport:
            return self._exported(tx, self._owned(tx, trace))

        return act

    def delete(self) -> Act[Removed]:
        """Delete the account with all that is its own; what is returned is the only copy."""

        def act(tx: Connection, trace: Trace) -> Removed:
            account = self._owned(tx, trace)
            guilds = SqlGuilds(tx)
            member = guilds.member(account.id)
            guild = None if member is None else guilds.guild(member.guild_id)
            leads = guild is not None and guild.leader == account.id
            check_deletable(account, guild.name if guild is not None and leads else "")
            export, ended = self._exported(tx, account), self._end(tx, account)
            trace.before, trace.after = {"id": account.id}, {"rows": remove(tx, ended)}
            return Removed(account, export, ended)

        return act

    def _owned(self, tx: Connection, trace: Trace) -> Account:
        check_owner(self.staff)
        account = person(SqlAccounts(tx), self.who)
        trace.target = account.username
        return account

    def _exported(self, tx: Connection, account: Account) -> AccountExport:
        tables, left = exported(tx, account.id)
        return {
            "account": account.username,
            "exportedAt": iso(self.wall_clock()),
            "tables": tables,
            "leftOut": left,
        }

    def _end(self, tx: Connection, account: Account) -> Ended:
        return end_sessions(SqlAccounts(tx), account.id, self.wall_clock())


@frozen
class HandlingActs:
    """What an owner does to an account: one transaction each, its audit row in it."""

    audit: Audit
    sessions: Sessions

    async def new_key(self, staff: Staff, who: str, reason: str) -> Keyed:
        """Another key in place of a lost one."""
        made = await self._do(staff, "new key", who, reason, self._work(staff, who).new_key())
        await self.sessions.tell(made.ended)
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
        await self.sessions.tell(gone.ended)
        return gone

    def _work(self, staff: Staff, who: str) -> PersonWork:
        return PersonWork(staff, who, self.audit.wall_clock)

    @shielded
    async def _do(self, staff: Staff, action: str, who: str, reason: str, act: Act[T]) -> T:
        # the account's own acts wait for it; what it has with others is deleted as it stands then
        entry = Entry(staff.name, action, who, reason)
        done = await self.audit.write(entry, act, OneAccount(await id_of(self.audit.ledger, who)))
        log.info("{actor}: {action} {name}", actor=staff.name, action=action, name=who)
        return done


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
