"""Operations of the store, one transaction each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed, Missing
from svcserver.kernel.system import token_hex
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.belongings.inventory.rules import Policy
from svcserver.metagame.belongings.inventory.store import active_character, held_by
from svcserver.metagame.belongings.shop import rules
from svcserver.metagame.belongings.shop.catalogue import Catalogue, Offer
from svcserver.metagame.belongings.shop.rules import Entitlements
from svcserver.metagame.belongings.shop.store import SqlPurchases, StoreItems
from svcserver.metagame.once import ONLY, Attempt

log = Logger()


@frozen
class ShopActs:
    """List what remains, issue purchase tokens, redeem them.

    ``entitlements`` gives the entitlements on an open transaction.
    """

    catalogue: Catalogue
    policy: Policy
    entitlements: Callable[[Connection], Entitlements]
    data: AccountData
    wall_clock: Callable[[], float]

    async def remaining(
        self, me: AccountId, offers: Iterable[Offer]
    ) -> Sequence[tuple[Offer, int]]:
        """The offers, each with how often the account may still take it (0 or 1)."""

        def work(tx: Connection) -> tuple[set[str], set[str]]:
            character_id = active_character(tx, me)
            held = held_by(tx, character_id) if character_id is not None else set()
            return held, self.entitlements(tx).active(me, self.wall_clock())

        held, entitled = await self.data.read(me, work)
        return [(offer, rules.remaining(offer, held, entitled)) for offer in offers]

    async def tagged(self, me: AccountId, tags: Sequence[str]) -> Sequence[tuple[Offer, int]]:
        """The offers of the one tag that must be asked for; raises Malformed."""
        if len(tags) != 1 or not tags[0]:
            raise Malformed("missing requiredTags query parameter")
        offers = self.catalogue.by_tag.get(tags[0])
        if offers is None:
            log.warn("unknown store tag {tag!r}", tag=tags[0][:64])
        return await self.remaining(me, offers) if offers else []

    async def offer(self, me: AccountId, sku: str) -> tuple[Offer, int]:
        """One offer of any tag; raises Missing."""
        offer = self.catalogue.offers.get(sku)
        if offer is None:
            raise Missing("no such offer")
        [found] = await self.remaining(me, [offer])
        return found

    async def issue(self, me: AccountId, sku: str) -> str:
        """A token for one purchase, of which only the hash is stored."""

        def work(tx: Connection) -> str:
            kept, entitlements, token = SqlPurchases(tx), self.entitlements(tx), token_hex(32)
            rules.issue(kept, entitlements, self.catalogue, me, sku, token, self.wall_clock())
            return token

        return await self.data.write(me, 0, work)

    async def redeem(self, me: AccountId, token: str | None, *, attempt: Attempt = ONLY) -> None:
        """Grant the purchase of a token, once."""

        def work(tx: Connection) -> None:
            kept, items, entitlements = SqlPurchases(tx), self._items(tx), self.entitlements(tx)
            rules.redeem(kept, entitlements, items, self.catalogue, me, token, self.wall_clock())

        await self.data.write(me, 0, attempt.once(work))

    def _items(self, tx: Connection) -> StoreItems:
        return StoreItems(tx, self.policy)
