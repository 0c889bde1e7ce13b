"""Operations on entitlements, one transaction each; writes are recorded in the event log."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger, OneAccount
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Late
from svcserver.metagame.accounts.eventlog import Entry, EventLog, holds
from svcserver.metagame.achievements.capacity import check_capacity
from svcserver.metagame.achievements.entitlements import records, rules, wire
from svcserver.metagame.achievements.entitlements.records import EntitlementRecord
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements, grant


@frozen
class EntitlementActs:
    """List, grant, revoke; ``defaults``: ENTITLEMENTS_DEFAULT, ``most``: ACHIEVEMENTS_MAX."""

    defaults: tuple[str, ...]
    most: int
    ledger: Ledger
    now: Callable[[], float]
    events: EventLog

    async def listed(self, account_id: AccountId) -> list[EntitlementRecord]:
        """The entitlements in force; the defaults are stored at the account's first use."""
        held = await self.ledger.read(lambda tx: SqlEntitlements(tx).all(account_id))
        if not rules.missing_defaults(held, self.defaults):
            return records.show(held, self._at())

        def first_use(tx: Connection) -> list[EntitlementRecord]:
            if holds(tx, account_id):
                return records.listing(tx, account_id, self.defaults, self.now())
            # a token may outlive its account, and AUTH_MODE=NONE needs none
            at = self._at()
            return records.show(rules.with_defaults(held, self.defaults, at), at)

        return await self.ledger.write(first_use, OneAccount(account_id))

    async def grant(
        self, entry: Entry[list[EntitlementRecord]], late: Late[wire.EntitlementWish]
    ) -> list[EntitlementRecord]:
        """Grant one; answers with the list."""
        account_id = entry.account_id

        def work(tx: Connection, notes: list[str]) -> list[EntitlementRecord]:
            sent, now = late.read(), self.now()
            check_capacity(SqlEntitlements(tx).all(account_id), [sent.wanted], self.most)
            records.listing(tx, account_id, self.defaults, now)
            grant(tx, account_id, sent.wanted, sent.duration or 0.0, "game server", now)
            return records.listing(tx, account_id, self.defaults, now)

        return await self.events.write(entry, work)

    async def revoke(self, entry: Entry[None], name: str) -> None:
        """Revoke one, if the account has it."""
        account_id = entry.account_id

        def work(tx: Connection, notes: list[str]) -> None:
            rights, at = SqlEntitlements(tx), self._at()
            held = rules.add_defaults(rights, account_id, self.defaults, at)
            rules.revoke(rights, account_id, held.get(name), at)

        await self.events.write(entry, work)

    def _at(self) -> int:
        return round(self.now() * 1000)
