"""Acts of staff on people: one transaction each, its audit row in it; then the news goes out.

``StaffWork`` is what happens in the transaction, the same for dashboard and ``svcctl``.
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
from svcserver.metagame.accounts.audit import Act, Audit, AuditQuery, Entry, Trace
from svcserver.metagame.accounts.directory import id_of
from svcserver.metagame.accounts.networks import AGAIN_S, SqlNetworks
from svcserver.metagame.accounts.rules import Account, Ended, end_sessions
from svcserver.metagame.accounts.sanctions import Kind, Sanction, SqlSanctions
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.moderation import rules
from svcserver.metagame.owner.moderation.rules import Change, Done, Order
from svcserver.metagame.owner.wire import described

log = Logger()

MAX_LISTED = 500  # at once
Listed = tuple[Account, Kind, Sanction]


def holding(tx: Connection, now: float) -> Iterator[list[Listed]]:
    """The bans and mutes that hold, the newest first, in pieces of MAX_LISTED.

    What ends or begins meanwhile moves none of the others.
    """
    last = None
    while found := SqlSanctions(tx).running(now, MAX_LISTED, last):
        last = found[-1]
        accounts = SqlAccounts(tx).find_all(one for one, _, _ in found)
        yield [(accounts[one], kind, why) for one, kind, why in found if one in accounts]


@frozen
class StaffWork:
    """Makes the acts of one member of staff on the account called ``who``."""

    staff: Staff
    who: str
    wall_clock: Callable[[], float]

    def ban(self, asked: Order) -> Act[Done]:
        """Ban, and end every session, also those of others whom the ban keeps out."""

        def act(tx: Connection, trace: Trace) -> Done:
            done = self._impose(tx, trace, Kind.BAN, asked)
            others = [self._end(tx, one) for one in self._kept_out_too(tx, done)]
            return Done(done.account, done, (self._end(tx, done.account), *others))

        return act

    def mute(self, asked: Order) -> Act[Done]:
        """The transaction that mutes: the sentence and its line in the audit log."""

        def act(tx: Connection, trace: Trace) -> Done:
            done = self._impose(tx, trace, Kind.MUTE, asked)
            return Done(done.account, done)

        return act

    def lift(self, kind: Kind) -> Act[Done]:
        """The transaction that ends a ban or mute before its time."""

        def act(tx: Connection, trace: Trace) -> Done:
            account = self._person(tx, trace)
            change = rules.lift(SqlSanctions(tx), self.staff, account, kind, self.wall_clock())
            trace.before, trace.after = described(change.before), None
            return Done(account, change)

        return act

    def kick(self) -> Act[Done]:
        """End every session; the player may log in again."""

        def act(tx: Connection, trace: Trace) -> Done:
            account = self._person(tx, trace)
            rules.check_may_handle(self.staff, account)
            return Done(account, None, (self._end(tx, account),))

        return act

    def give_role(self, role: Role) -> Act[Done]:
        """The transaction that gives an account another role."""

        def act(tx: Connection, trace: Trace) -> Done:
            account = self._person(tx, trace)
            trace.before = _role(account)
            after = rules.set_role(SqlAccounts(tx), self.staff, account, role)
            trace.after = _role(after)
            end_all(tx, account.id)
            return Done(after)

        return act

    def _person(self, tx: Connection, trace: Trace) -> Account:
        account = rules.person(SqlAccounts(tx), self.who)
        trace.target = account.username
        return account

    def _impose(self, tx: Connection, trace: Trace, kind: Kind, asked: Order) -> Change:
        account, at = self._person(tx, trace), self.wall_clock()
        change = rules.impose(SqlSanctions(tx), self.staff, account, kind, asked, at)
        trace.before, trace.after = described(change.before), described(change.after)
        return change

    def _kept_out_too(self, tx: Connection, done: Change) -> list[Account]:
        """Players who may be logged in from one of the ban's networks."""
        if done.after is None or not done.after.networks:
            return []
        # a token lives LIFETIME_S, and the log-in that gave it may have been noted AGAIN_S before
        since = self.wall_clock() - LIFETIME_S - AGAIN_S
        near = SqlNetworks(tx).near(done.after.networks, since)
        found = SqlAccounts(tx).find_all(one for one in near if one != done.account.id)
        return [one for one in found.values() if one.role is Role.PLAYER]

    def _end(self, tx: Connection, account: Account) -> Ended:
        return end_sessions(SqlAccounts(tx), account.id, self.wall_clock())


@frozen
class ModerationActs:
    """What the dashboard's routes do to people."""

    audit: Audit
    sessions: Sessions

    @shielded
    async def do(
        self,
        staff: Staff,
        action: str,
        who: str,
        reason: str,
        choose: Callable[[StaffWork], Act[Done]],
        *,
        across: bool = False,
    ) -> Done:
        """Do the act that ``choose`` picks, and end the sessions that it ends.

        ``across``: it concerns more accounts than ``who``.
        """
        act = choose(StaffWork(staff, who, self.audit.wall_clock))
        scope = ACROSS if across else OneAccount(await id_of(self.audit.ledger, who))
        done = await self.audit.write(Entry(staff.name, action, who, reason), act, scope)
        for one in done.ended:
            await self.sessions.tell(one)
        log.info("{actor}: {action} {name}", actor=staff.name, action=action, name=who)
        return done

    async def running(self) -> tuple[list[Listed], int]:
        """The newest MAX_LISTED bans and mutes that hold, and how many do."""

        def work(tx: Connection) -> tuple[list[Listed], int]:
            now = self.audit.wall_clock()
            return next(holding(tx, now), []), SqlSanctions(tx).how_many(now)

        return await self.audit.ledger.read(work)

    async def log(self, asked: AuditQuery) -> list[dict[str, object]]:
        """Rows of the audit log, the newest first."""
        return await self.audit.read(asked)


def _role(account: Account) -> dict[str, Json]:
    return {"role": account.role.word}
