"""Operations on cooldowns, one transaction each, recorded in the event log."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.shapes import Late
from svcserver.kernel.times import DAY_S, iso
from svcserver.metagame.accounts.eventlog import Entry, EventLog
from svcserver.metagame.achievements.cooldowns import rules, wire
from svcserver.metagame.achievements.cooldowns.store import SqlCooldowns


@frozen
class CooldownActs:
    """Read and start; ``most``: ACHIEVEMENTS_MAX.

    Bodies are parsed within the transaction, so that a malformed one is recorded, too.
    """

    ledger: Ledger
    wall_clock: Callable[[], float]
    events: EventLog
    most: int

    async def read(self, account_id: AccountId) -> dict[str, str]:
        """When each cooldown of the account began, by id."""
        return await self.ledger.read(lambda tx: SqlCooldowns(tx).all(account_id))

    async def batch(
        self, entry: Entry[dict[str, str]], sent: Late[wire.CooldownBatch]
    ) -> dict[str, str]:
        """Start several cooldowns; answers with all of the account's."""

        def work(tx: Connection, notes: list[str]) -> dict[str, str]:
            cooldowns, started = SqlCooldowns(tx), sent.read().started(iso(self.wall_clock()))
            rules.start_all(cooldowns, entry.account_id, started, self.most)
            return cooldowns.all(entry.account_id)

        return await self.events.write(entry, work)

    async def start(self, entry: Entry[None], cooldown_id: str) -> None:
        def work(tx: Connection, notes: list[str]) -> None:
            name, now = wire.cooldown_in_path(cooldown_id), self.wall_clock()
            yesterday = iso(now - DAY_S)
            rules.start(SqlCooldowns(tx), entry.account_id, name, iso(now), yesterday, self.most)

        await self.events.write(entry, work)
