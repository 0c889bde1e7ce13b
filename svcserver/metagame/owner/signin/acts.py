"""A member of staff's own ways into the dashboard: another key, and a second factor."""

from __future__ import annotations

from attrs import evolve, frozen
from sqlalchemy import Connection

from svcserver.db.ledger import OneAccount
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed, Unauthenticated
from svcserver.kernel.secrets import fingerprint
from svcserver.metagame.accounts.audit import Audit, Entry, Trace
from svcserver.metagame.accounts.dashboard_access import (
    DashboardAccess,
    SqlDashboardAccess,
    is_factor,
    step_of,
)
from svcserver.metagame.accounts.rules import new_account_key


def wrong_code() -> Unauthenticated:
    """The one 401 for a missing, wrong or used code, by which the page asks for one."""
    return Unauthenticated("write the code of your second factor", code="second_factor")


@frozen
class SignInActs:
    """What a member of staff sets for its own account."""

    audit: Audit
    counters: Counters

    async def of(self, account_id: AccountId) -> DashboardAccess:
        """What opens the dashboard to the account: a key of its own, a second factor."""
        return await self.audit.ledger.read(lambda tx: SqlDashboardAccess(tx).of(account_id))

    async def check(self, account_id: AccountId, code: str | None) -> None:
        """Raise unless the account has no second factor or the code is right and unused."""
        if (await self.of(account_id)).factor is None:
            return
        if code is None:
            raise wrong_code()
        await self._count(account_id)

        def work(tx: Connection) -> None:
            self._use(tx, account_id, code)

        try:
            await self.audit.ledger.write(work, OneAccount(account_id))
        except Unauthenticated:
            self.counters.add(Counted.FAILED_LOGINS, "second_factor")
            raise

    async def note(self, name: str, account_id: AccountId, action: str) -> None:
        """Record that somebody signs in or out."""
        entry, scope = Entry(name, action, name), OneAccount(account_id)
        await self.audit.write(entry, lambda tx, trace: None, scope)

    async def set_key(self, name: str, account_id: AccountId, *, on: bool) -> str | None:
        """A fresh key for the dashboard in place of the account's own, or none any more."""
        key = new_account_key() if on else None

        def act(tx: Connection, trace: Trace) -> None:
            access = SqlDashboardAccess(tx)
            before = access.of(account_id)
            trace.before, trace.after = {"ownKey": before.key_hash is not None}, {"ownKey": on}
            access.put(evolve(before, key_hash=None if key is None else fingerprint(key)))

        await self.audit.write(Entry(name, "dashboard key", name), act, OneAccount(account_id))
        return key

    async def set_factor(
        self, name: str, account_id: AccountId, factor: str | None, code: str
    ) -> None:
        """Begin to ask for the codes of ``factor``, or with None end it; a right code proves it."""
        await self._count(account_id)

        def act(tx: Connection, trace: Trace) -> None:
            access = SqlDashboardAccess(tx)
            before = access.of(account_id)
            trace.before = {"secondFactor": before.factor is not None}
            trace.after = {"secondFactor": factor is not None}
            if before.factor is not None and factor is not None:
                raise Malformed("end the second factor first", code="bad_request")
            if factor is None:
                access.put(evolve(self._use(tx, account_id, code), factor=None))
                return
            step = step_of(factor, code, self.audit.wall_clock()) if is_factor(factor) else None
            if step is None:
                raise Malformed("this is not the code of that secret", code="bad_request")
            access.put(evolve(before, factor=factor, step=step))

        await self.audit.write(Entry(name, "second factor", name), act, OneAccount(account_id))

    def _use(self, tx: Connection, account_id: AccountId, code: str) -> DashboardAccess:
        """Use up a code; raises Unauthenticated where it is wrong or was used."""
        access = SqlDashboardAccess(tx)
        one = access.of(account_id)
        step = None if one.factor is None else step_of(one.factor, code, self.audit.wall_clock())
        if step is None or step <= one.step:
            raise wrong_code()
        used = evolve(one, step=step)
        access.put(used)
        return used

    async def _count(self, account_id: AccountId) -> None:
        """Count a try, in a transaction of its own, which a wrong code does not undo."""

        def work(tx: Connection) -> None:
            access = SqlDashboardAccess(tx)
            access.put(access.of(account_id).tried(self.audit.wall_clock()))

        await self.audit.ledger.write(work, OneAccount(account_id))
