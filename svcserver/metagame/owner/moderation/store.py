"""What an act of staff does inside its transaction, the same for dashboard and ``svcctl``."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.access.tokens import LIFETIME_S
from svcserver.metagame.accounts.audit import Act, Trace
from svcserver.metagame.accounts.networks import AGAIN_S, SqlNetworks
from svcserver.metagame.accounts.rules import Account, end_sessions
from svcserver.metagame.accounts.sanctions import Kind, SqlSanctions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.owner.moderation import rules
from svcserver.metagame.owner.moderation.rules import Change, Order
from svcserver.metagame.owner.wire import described


async def id_of(ledger: Ledger, who: str) -> AccountId:
    """The id of an account for the scope of an act, which looks it up again; empty for nobody."""
    found = await ledger.read(lambda tx: SqlAccounts(tx).named(who) or SqlAccounts(tx).find(who))
    return "" if found is None else found.id


@frozen
class Ended:
    """An account whose sessions an act ended: its tokens from before ``not_before`` (epoch
    seconds) are refused.
    """

    account_id: AccountId
    not_before: int


@frozen
class Done:
    """What an act of staff has done; ``ended``: whose sessions, the account's own first."""

    account: Account
    change: Change | None = None
    ended: tuple[Ended, ...] = ()


@frozen
class StaffWork:
    """Makes the acts of one member of staff on the account called ``who``."""

    staff: Staff
    who: str
    now: Callable[[], float]

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
            change = rules.lift(SqlSanctions(tx), self.staff, account, kind, self.now())
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
            return Done(after)

        return act

    def _person(self, tx: Connection, trace: Trace) -> Account:
        account = rules.person(SqlAccounts(tx), self.who)
        trace.target = account.username
        return account

    def _impose(self, tx: Connection, trace: Trace, kind: Kind, asked: Order) -> Change:
        account, at = self._person(tx, trace), self.now()
        change = rules.impose(SqlSanctions(tx), self.staff, account, kind, asked, at)
        trace.before, trace.after = described(change.before), described(change.after)
        return change

    def _kept_out_too(self, tx: Connection, done: Change) -> list[Account]:
        """Players who may be logged in from one of the ban's networks."""
        if done.after is None or not done.after.networks:
            return []
        # a token lives LIFETIME_S, and the log-in that gave it may have been noted AGAIN_S before
        since = self.now() - LIFETIME_S - AGAIN_S
        near = SqlNetworks(tx).near(done.after.networks, since)
        found = SqlAccounts(tx).find_all(one for one in near if one != done.account.id)
        return [one for one in found.values() if one.role is Role.PLAYER]

    def _end(self, tx: Connection, account: Account) -> Ended:
        return Ended(account.id, end_sessions(SqlAccounts(tx), account.id, self.now()))


def _role(account: Account) -> dict[str, Json]:
    return {"role": account.role.word}
