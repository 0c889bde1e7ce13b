"""Moderation actions on accounts; each is one transaction that includes its audit row.

``StaffWork`` creates the actions, both for the dashboard and for ``svcctl``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import ACROSS, OneAccount
from svcserver.db.shield import shielded
from svcserver.kernel.json import Json
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.access.staff_sessions import end_all
from svcserver.metagame.access.tokens import LIFETIME_S
from svcserver.metagame.accounts.audit import Act, Audit, AuditEntry, AuditQuery, Trace
from svcserver.metagame.accounts.directory import id_of
from svcserver.metagame.accounts.networks import AGAIN_S, SqlNetworks
from svcserver.metagame.accounts.rules import Account, EndedSessions, end_sessions
from svcserver.metagame.accounts.sanctions import Sanction, SanctionKind, SqlSanctions
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.moderation import rules
from svcserver.metagame.owner.moderation.rules import SanctionChange, SanctionOrder, StaffActResult
from svcserver.metagame.owner.wire import described

log = Logger()

MAX_LISTED = 500  # rows in one reply
HeldSanction = tuple[Account, SanctionKind, Sanction]


def holding(tx: Connection, now: float) -> Iterator[list[HeldSanction]]:
    """Yield the current bans and mutes, newest first, in pages of MAX_LISTED.

    Each page starts after the last entry of the previous page. So no entry is skipped or repeated
    if bans begin or end between two pages.
    """
    last = None
    while page := SqlSanctions(tx).running(now, MAX_LISTED, last):
        last = page[-1]
        accounts = SqlAccounts(tx).find_all(account_id for account_id, _, _ in page)
        yield [
            (accounts[account_id], kind, sanction)
            for account_id, kind, sanction in page
            if account_id in accounts
        ]


@frozen
class StaffWork:
    """The actions of one staff member on one account (``who``); each method returns an action."""

    staff: Staff
    who: str
    wall_clock: Callable[[], float]

    def ban(self, order: SanctionOrder) -> Act[StaffActResult]:
        """Return the action that bans an account and ends all sessions that the ban affects."""

        def act(tx: Connection, trace: Trace) -> StaffActResult:
            done = self._impose(tx, trace, SanctionKind.BAN, order)
            others = [self._end(tx, account) for account in self._kept_out_too(tx, done)]
            return StaffActResult(done.account, done, (self._end(tx, done.account), *others))

        return act

    def mute(self, order: SanctionOrder) -> Act[StaffActResult]:
        def act(tx: Connection, trace: Trace) -> StaffActResult:
            done = self._impose(tx, trace, SanctionKind.MUTE, order)
            return StaffActResult(done.account, done)

        return act

    def lift(self, kind: SanctionKind) -> Act[StaffActResult]:
        """Return the action that ends a ban or mute early."""

        def act(tx: Connection, trace: Trace) -> StaffActResult:
            account = self._person(tx, trace)
            change = rules.lift(SqlSanctions(tx), self.staff, account, kind, self.wall_clock())
            trace.before, trace.after = described(change.before), None
            return StaffActResult(account, change)

        return act

    def kick(self) -> Act[StaffActResult]:
        """Return the action that ends all sessions of an account; the account may log in again."""

        def act(tx: Connection, trace: Trace) -> StaffActResult:
            account = self._person(tx, trace)
            rules.check_may_handle(self.staff, account)
            return StaffActResult(account, None, (self._end(tx, account),))

        return act

    def give_role(self, role: Role, *, proven: bool) -> Act[StaffActResult]:
        """Return the action that changes the account's role.

        ``proven`` is true if the request comes from svcctl or has the account key.
        """

        def act(tx: Connection, trace: Trace) -> StaffActResult:
            account = self._person(tx, trace)
            trace.before = _role(account)
            after = rules.set_role(SqlAccounts(tx), self.staff, account, role, proven=proven)
            trace.after = _role(after)
            end_all(tx, account.id)
            return StaffActResult(after)

        return act

    def _person(self, tx: Connection, trace: Trace) -> Account:
        account = rules.person(SqlAccounts(tx), self.who)
        trace.target = account.username
        return account

    def _impose(
        self, tx: Connection, trace: Trace, kind: SanctionKind, order: SanctionOrder
    ) -> SanctionChange:
        account, at = self._person(tx, trace), self.wall_clock()
        change = rules.impose(SqlSanctions(tx), self.staff, account, kind, order, at)
        trace.before, trace.after = described(change.before), described(change.after)
        return change

    def _kept_out_too(self, tx: Connection, done: SanctionChange) -> list[Account]:
        """Return the other players who logged in from networks that the ban now covers.

        Log-ins whose tokens have certainly expired are ignored.
        """
        if done.after is None or not done.after.networks:
            return []
        # a token is valid for LIFETIME_S; its log-in may have been recorded AGAIN_S earlier
        since = self.wall_clock() - LIFETIME_S - AGAIN_S
        near = SqlNetworks(tx).near(done.after.networks, since)
        accounts = SqlAccounts(tx).find_all(
            near_id for near_id in near if near_id != done.account.id
        )
        return [account for account in accounts.values() if account.role is Role.PLAYER]

    def _end(self, tx: Connection, account: Account) -> EndedSessions:
        return end_sessions(SqlAccounts(tx), account.id, self.wall_clock())


@frozen
class ModerationActs:
    """The moderation operations behind the dashboard's routes."""

    audit: Audit
    sessions: Sessions

    @shielded
    async def do(
        self,
        staff: Staff,
        action: str,
        who: str,
        reason: str,
        choose: Callable[[StaffWork], Act[StaffActResult]],
        *,
        across: bool = False,
    ) -> StaffActResult:
        """Run the action that ``choose`` returns, and tell all processes which sessions it ended.

        ``across`` is true if the action reads or changes other accounts besides ``who``.
        """
        act = choose(StaffWork(staff, who, self.audit.wall_clock))
        scope = ACROSS if across else OneAccount(await id_of(self.audit.ledger, who))
        done = await self.audit.write(AuditEntry(staff.name, action, who, reason), act, scope)
        for ended in done.ended:
            await self.sessions.publish(ended)
        log.info("{actor}: {action} {name}", actor=staff.name, action=action, name=who)
        return done

    async def running(self) -> tuple[list[HeldSanction], int]:
        """Return the newest MAX_LISTED bans and mutes in force, and how many are in force."""

        def work(tx: Connection) -> tuple[list[HeldSanction], int]:
            now = self.audit.wall_clock()
            return next(holding(tx, now), []), SqlSanctions(tx).how_many(now)

        return await self.audit.ledger.read_snapshot(work)

    async def log(self, query: AuditQuery) -> list[dict[str, object]]:
        """Return rows of the audit log, newest first."""
        return await self.audit.read_rows(query)


def _role(account: Account) -> dict[str, Json]:
    return {"role": account.role.word}
