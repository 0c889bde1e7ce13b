"""Operations of the store, one transaction each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen
from sqlalchemy import Connection

from svcserver.kernel.ids import AccountId
from svcserver.kernel.system import token_hex
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.belongings.inventory.rules import Policy
from svcserver.metagame.belongings.inventory.store import active_character, held_by
from svcserver.metagame.belongings.shop import rules
from svcserver.metagame.belongings.shop.catalogue import Catalogue, Offer
from svcserver.metagame.belongings.shop.rules import Entitlements
from svcserver.metagame.belongings.shop.store import SqlPurchases, StoreItems


@frozen
class ShopActs:
    """List what remains, issue purchase tokens, redeem them.

    ``rights`` gives the entitlements on an open transaction.
    """

    catalogue: Catalogue
    policy: Policy
    rights: Callable[[Connection], Entitlements]
    data: AccountData
    now: Callable[[], float]

    async def remaining(
        self, me: AccountId, offers: Iterable[Offer]
    ) -> Sequence[tuple[Offer, int]]:
        """The offers, each with how often the account may still take it (0 or 1)."""

        def work(tx: Connection) -> tuple[set[str], set[str]]:
            character_id = active_character(tx, me)
            held = held_by(tx, character_id) if character_id is not None else set()
            return held, self.rights(tx).active(me, self.now())

        held, entitled = await self.data.read(me, work)
        return [(offer, rules.remaining(offer, held, entitled)) for offer in offers]

    async def issue(self, me: AccountId, sku: str) -> str:
        """A token for one purchase, of which only the hash is stored."""

        def work(tx: Connection) -> str:
            kept, rights, token = SqlPurchases(tx), self.rights(tx), token_hex(32)
            rules.issue(kept, rights, self.catalogue, me, sku, token, self.now())
            return token

        return await self.data.write(me, 0, work)

    async def redeem(self, me: AccountId, token: str | None) -> None:
        """Grant the purchase of a token, once."""

        def work(tx: Connection) -> None:
            kept, core, rights = SqlPurchases(tx), StoreItems(tx, self.policy), self.rights(tx)
            rules.redeem(kept, rights, core, self.catalogue, me, token, self.now())

        await self.data.write(me, 0, work)
