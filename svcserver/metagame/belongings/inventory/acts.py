"""Operations on inventories; each runs in one transaction."""

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Forbidden, Missing
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.belongings.inventory import rules
from svcserver.metagame.belongings.inventory.rules import By, Policy
from svcserver.metagame.belongings.inventory.store import SqlInventory, inventory_of, owner_of
from svcserver.metagame.belongings.items import Instance, Transaction
from svcserver.metagame.once import ONLY, Attempt

log = Logger()
MAX_ODDITIES = 5  # logged oddities (see ``rules.Done``) per transaction


@frozen
class InventoryActs:
    """The operations that read and change inventories.

    The methods' parameter ``size`` is the number of bytes of the request body.
    """

    policy: Callable[[], Policy]
    data: AccountData
    wall_clock: Callable[[], float]

    async def read_inventory(self, owner: AccountId, character_id: CharacterId) -> bytes:
        """Return a character's inventory as the JSON of the reply; raises Forbidden."""

        def work(tx: Connection) -> bytes:
            if owner_of(tx, character_id) != owner:
                raise Forbidden("not one of this account's characters")
            return inventory_of(tx, character_id)

        return await self.data.read_for_account(owner, work)

    async def transact(
        self,
        owner: AccountId,
        character_id: CharacterId | None,
        deal: Transaction,
        by: By,
        size: int,
    ) -> bytes:
        """Run one inventory transaction; return the JSON of the reply."""
        policy = self.policy()

        def work(tx: Connection) -> rules.Done:
            inventory, now = SqlInventory(tx, policy.log_bytes), self.wall_clock()
            return inventory.transact(owner, character_id, deal, by, policy, now)

        done = await self.data.write(owner, size, work)
        for oddity in done.oddities[:MAX_ODDITIES]:
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
        """Save one held item; return the item's stored JSON.

        Raises Missing if the character holds no item with this instance id and catalogue id. Raises
        Conflict if the item's version is not higher than the stored version, or if the inventory
        would be too large. Raises Forbidden if the character does not belong to ``owner``.
        """
        policy = self.policy()

        def work(tx: Connection) -> bytes:
            inventory, now = SqlInventory(tx, policy.log_bytes), self.wall_clock()
            holder = rules.check_owner(inventory.holder(character_id, None), owner)
            owned, instance_id = holder.character_id, item.instance_id
            held = inventory.instances(owned, [instance_id]).get(instance_id)
            if held is None or held.catalog_id != item.catalog_id:
                raise Missing("this character holds no such item")
            if not rules.is_newer(held, item):
                return held.body
            inventory.grow(owned, holder.size, item.size - held.size, policy)
            inventory.put_instances(owned, [item])
            changes = {"saved": [instance_id]}
            inventory.note(rules.Note(owned, None, int(now * 1000), by, "", changes))
            return item.body

        return await self.data.write(owner, size, attempt.once(work, bytes))
