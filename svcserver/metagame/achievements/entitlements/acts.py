"""Operations on entitlements, one transaction each; writes are recorded in the event log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger, OneAccount
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.eventlog import Entry, EventLog, is_known
from svcserver.metagame.achievements.bounds import check_capacity
from svcserver.metagame.achievements.entitlements import rules, wire
from svcserver.metagame.achievements.entitlements.rules import Entitlement
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements, grant, listing


@frozen
class EntitlementActs:
    """List, grant, revoke; ``defaults``: ENTITLEMENTS_DEFAULT, ``most``: ACHIEVEMENTS_MAX."""

    defaults: tuple[str, ...]
    most: int
    ledger: Ledger
    wall_clock: Callable[[], float]
    events: EventLog

    async def listed(self, account_id: AccountId) -> Sequence[Entitlement]:
        """The entitlements in force; the defaults are stored at the account's first use."""
        held = await self.ledger.read(lambda tx: SqlEntitlements(tx).all(account_id))
        if not rules.missing_defaults(held, self.defaults):
            return rules.active(held, self._at())

        def first_use(tx: Connection) -> Sequence[Entitlement]:
            if is_known(tx, account_id):
                return listing(tx, account_id, self.defaults, self.wall_clock())
            # a token may outlive its account, and AUTH_MODE=NONE needs none
            at = self._at()
            return rules.active(rules.with_defaults(held, self.defaults, at), at)

        return await self.ledger.write(first_use, OneAccount(account_id))

    async def grant(
        self, entry: Entry[Sequence[Entitlement]], late: Late[wire.EntitlementWish]
    ) -> Sequence[Entitlement]:
        """Grant one; answers with the list."""
        account_id = entry.account_id

        def work(tx: Connection, notes: list[str]) -> Sequence[Entitlement]:
            sent, now = late.read(), self.wall_clock()
            check_capacity(SqlEntitlements(tx).all(account_id), [sent.wanted], self.most)
            listing(tx, account_id, self.defaults, now)
            grant(tx, account_id, sent.wanted, sent.duration or 0.0, "game server", now)
            return listing(tx, account_id, self.defaults, now)

        return await self.events.write(entry, work)

    async def revoke(self, entry: Entry[None], name: str) -> None:
        """Revoke one, if the account has it."""
        account_id = entry.account_id

        def work(tx: Connection, notes: list[str]) -> None:
            entitlements, at = SqlEntitlements(tx), self._at()
            held = rules.add_defaults(entitlements, account_id, self.defaults, at)
            rules.revoke(entitlements, account_id, held.get(name), at)

        await self.events.write(entry, work)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)
