"""Operations of staff on accounts, and the service that stores when players were last seen."""

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
from svcserver.metagame.accounts.audit import Act, Audit, AuditEntry, Trace
from svcserver.metagame.accounts.directory import id_of
from svcserver.metagame.accounts.rules import Account, EndedSessions, end_sessions, new_account_key
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.moderation.rules import person
from svcserver.metagame.owner.people import rules
from svcserver.metagame.owner.people.data import exported
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
    """The operations that read accounts: lists, and the details of one account."""

    ledger: Ledger
    online: Online
    city_map: str
    wall_clock: Callable[[], float]

    async def listed(
        self, order: rules.SortOrder, only: rules.AccountFilter, text: str, skip: int, count: int
    ) -> list[rules.ListedAccount]:
        """Return the accounts that pass the filter ``only`` and whose name or id contains ``text``.

        The first ``skip`` accounts are left out; at most ``count`` are returned.
        """
        wall_clock = self.wall_clock
        return await self.ledger.read_snapshot(
            lambda tx: SqlPeople(tx).listed(order, only, text, skip, count, wall_clock())
        )

    async def where(self) -> Mapping[AccountId, Place]:
        """Return a dict from account id to kind of place, for the players who are online."""
        beats = await self.online.all()
        return {beat.account_id: place(beat.map, beat.state, self.city_map) for beat in beats}

    async def person(self, who: str) -> rules.AccountDetails:
        """Return the details of the account with this name or id; raises Missing."""
        return await self.ledger.read_snapshot(
            lambda tx: SqlPeople(tx).person(person(SqlAccounts(tx), who), self.wall_clock())
        )


@frozen
class Keyed:
    """An account, its new key, and its ended sessions."""

    account: Account
    key: str = field(repr=False)
    ended: EndedSessions


@frozen
class Removed:
    """A deleted account and its exported data, without secrets."""

    account: Account
    export: AccountExport = field(repr=False)
    ended: EndedSessions


@frozen
class PersonWork:
    """The actions on the account ``who`` that need an owner; other staff get Forbidden."""

    staff: Staff
    who: str
    wall_clock: Callable[[], float]

    def new_key(self, *, proven: bool) -> Act[Keyed]:
        """Return the action that replaces an account's key and ends the account's sessions.

        ``proven`` is true if the request comes from svcctl or has the account key.
        """

        def act(tx: Connection, trace: Trace) -> Keyed:
            account, accounts = self._owned(tx, trace), SqlAccounts(tx)
            rules.check_new_key(proven=proven)
            key = new_account_key()
            accounts.replace_key(account.id, key)
            return Keyed(account, key, self._end(tx, account))

        return act

    def merge_notes(self, to: str) -> Act[tuple[Account, Account, int]]:
        """Return the action that moves all notes (the main currency) to the account ``to``.

        The action returns the source, the target and the number of notes that were moved.
        """

        def act(tx: Connection, trace: Trace) -> tuple[Account, Account, int]:
            source, target = self._owned(tx, trace), person(SqlAccounts(tx), to)
            rules.check_merge(source, target)
            trace.before = {source.username: source.notes, target.username: target.notes}
            moved = source.notes
            for account, more in ((source, -moved), (target, moved)):
                SqlPeople(tx).add_notes(account.id, more)
            trace.after = {source.username: 0, target.username: target.notes + moved}
            return source, target, moved

        return act

    def export(self) -> Act[AccountExport]:
        """Return the action that exports all data of the account except secrets."""

        def act(tx: Connection, trace: Trace) -> AccountExport:
            return self._exported(tx, self._owned(tx, trace))

        return act

    def delete(self) -> Act[Removed]:
        """Return the action that exports the account's data and then deletes the account."""

        def act(tx: Connection, trace: Trace) -> Removed:
            account = self._owned(tx, trace)
            guilds = SqlGuilds(tx)
            member = guilds.member(account.id)
            guild = None if member is None else guilds.guild(member.guild_id)
            leads = guild is not None and guild.leader == account.id
            rules.check_deletable(account, guild.name if guild is not None and leads else "")
            export, ended = self._exported(tx, account), self._end(tx, account)
            trace.before, trace.after = {"id": account.id}, {"rows": remove(tx, ended)}
            return Removed(account, export, ended)

        return act

    def _owned(self, tx: Connection, trace: Trace) -> Account:
        rules.check_owner(self.staff)
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

    def _end(self, tx: Connection, account: Account) -> EndedSessions:
        return end_sessions(SqlAccounts(tx), account.id, self.wall_clock())


@frozen
class HandlingActs:
    """An owner's operations on an account; each operation and its audit row are one transaction."""

    audit: Audit
    sessions: Sessions

    @shielded
    async def do(
        self,
        staff: Staff,
        action: str,
        who: str,
        reason: str,
        choose: Callable[[PersonWork], Act[T]],
    ) -> T:
        """Run the action that ``choose`` returns; if it ended sessions, notify all processes."""
        # other writes to this account wait, but rows that it shares with other accounts may change
        act = choose(PersonWork(staff, who, self.audit.wall_clock))
        entry = AuditEntry(staff.name, action, who, reason)
        done = await self.audit.write(entry, act, OneAccount(await id_of(self.audit.ledger, who)))
        log.info("{actor}: {action} {name}", actor=staff.name, action=action, name=who)
        if isinstance(done, Keyed | Removed):
            await self.sessions.publish(done.ended)
        return done


@define(eq=False)
class LastSeen:
    """Stores the times at which players were last seen."""

    ledger: Ledger
    online: Online
    _stored: dict[AccountId, int] = field(factory=dict, init=False)

    def store_last_seen(self) -> Deferred[None]:
        """Store the last-seen times that have changed since the previous call."""
        return Deferred.fromCoroutine(self._store_last_seen())

    async def _store_last_seen(self) -> None:
        beats: list[Beat] = await self.online.all()
        times = {beat.account_id: int(beat.at) for beat in beats}
        new = {name: at for name, at in times.items() if self._stored.get(name) != at}
        if new:
            await self.ledger.write(lambda tx: SqlPeople(tx).keep_seen(new), ACROSS)
        self._stored = times


def seen_watch(clock: IReactorTime, last_seen: LastSeen) -> Every:
    """Return the service that calls ``last_seen.store_last_seen`` every ``SEEN_EVERY_S``."""
    return Every(clock, SEEN_EVERY_S, last_seen.store_last_seen, "storing who is online")
