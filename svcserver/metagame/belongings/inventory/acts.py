"""Operations on inventories, one transaction each."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Forbidden
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.belongings.inventory import rules
from svcserver.metagame.belongings.inventory.rules import By, Policy
from svcserver.metagame.belongings.inventory.store import SqlInventory, inventory_of, owner_of
from svcserver.metagame.belongings.items import Instance, Transaction
from svcserver.metagame.once import ONLY, Attempt

log = Logger()
MAX_SHOWN = 5  # oddities (see ``rules.Done``) of one transaction that are logged


@frozen
class InventoryActs:
    """Read and change what characters hold; ``size``: bytes of the request's body."""

    policy: Policy
    data: AccountData
    wall_clock: Callable[[], float]

    async def read(self, owner: AccountId, character_id: CharacterId) -> bytes:
        """All that a character holds, as the JSON of the reply."""

        def work(tx: Connection) -> bytes:
            if owner_of(tx, character_id) != owner:
                raise Forbidden("not one of this account's characters")
            return inventory_of(tx, character_id)

        return await self.data.read(owner, work)

    async def transact(
        self,
        owner: AccountId,
        character_id: CharacterId | None,
        deal: Transaction,
        by: By,
        size: int,
    ) -> bytes:
        """Run one inventory transaction; returns the JSON of its reply."""

        def work(tx: Connection) -> rules.Done:
            kept, now = SqlInventory(tx, self.policy.log_bytes), self.wall_clock()
            return rules.transact(kept, owner, character_id, deal, by, self.policy, now)

        done = await self.data.write(owner, size, work)
        for oddity in done.oddities[:MAX_SHOWN]:
            log.warn("inventory of {character}: {oddity!r}", character=character_id, oddity=oddity)
        return done.answer

    async def update(
        self,
        owner: AccountId,
        character_id: CharacterId | None,
        item: Instance,
        by: By,
        size: int,
        *,
        attempt: Attempt = ONLY,
    ) -> bytes:
        """Save one held item; returns its stored JSON."""

        def work(tx: Connection) -> bytes:
            kept, now = SqlInventory(tx, self.policy.log_bytes), self.wall_clock()
            held = rules.update_instance(kept, owner, character_id, item, by, self.policy, now)
            return held.body

        return await self.data.write(owner, size, attempt.once(work, bytes))
