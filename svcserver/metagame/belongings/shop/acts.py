"""Operations of the store; each runs in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from attrs import frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Fragment
from svcserver.kernel.refusals import Conflict, Malformed, Missing
from svcserver.kernel.system import token_hex
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.belongings.inventory.rules import By, Policy
from svcserver.metagame.belongings.inventory.store import (
    SqlInventory,
    active_character,
    held_by,
    owner_of,
)
from svcserver.metagame.belongings.items import Instance, Transaction, transaction_id
from svcserver.metagame.belongings.records import show_transaction
from svcserver.metagame.belongings.shop import rules
from svcserver.metagame.belongings.shop.catalogue import Catalogue, Offer
from svcserver.metagame.belongings.shop.rules import Purchase
from svcserver.metagame.belongings.shop.store import SqlPurchases
from svcserver.metagame.once import ONLY, Attempt

log = Logger()


class Entitlements(Protocol):
    """The methods of ``achievements/entitlements`` that the store calls."""

    def active(self, account_id: AccountId, now: float) -> set[str]:
        """Return the names of the entitlements in force at ``now`` (epoch seconds)."""

    def grant(
        self, account_id: AccountId, entitlement: str, duration: float, source: str, now: float
    ) -> None:
        """Grant an entitlement for ``duration`` hours (0: forever); store its ``source``."""


@frozen
class ShopActs:
    """Lists offers, issues purchase tokens, and redeems them.

    ``entitlements(tx)`` reads and grants entitlements in the open transaction ``tx``.
    """

    catalogue: Catalogue
    policy: Callable[[], Policy]
    entitlements: Callable[[Connection], Entitlements]
    data: AccountData
    wall_clock: Callable[[], float]

    async def remaining(
        self, me: AccountId, offers: Iterable[Offer]
    ) -> Sequence[tuple[Offer, int]]:
        """Return each offer with the number of purchases that the account has left, 0 or 1."""

        def work(tx: Connection) -> tuple[set[str], set[str]]:
            character_id = active_character(tx, me)
            held = held_by(tx, character_id) if character_id is not None else set()
            return held, self.entitlements(tx).active(me, self.wall_clock())

        held, entitled = await self.data.read_for_account(me, work)
        return [(offer, rules.remaining(offer, held, entitled)) for offer in offers]

    async def tagged(self, me: AccountId, tags: Sequence[str]) -> Sequence[tuple[Offer, int]]:
        """Return the offers with this first tag; raises Malformed if ``tags`` is not one tag."""
        if len(tags) != 1 or not tags[0]:
            raise Malformed("missing requiredTags query parameter")
        offers = self.catalogue.by_tag.get(tags[0])
        if offers is None:
            log.warn("unknown store tag {tag!r}", tag=tags[0][:64])
        return await self.remaining(me, offers) if offers else []

    async def offer(self, me: AccountId, sku: str) -> tuple[Offer, int]:
        """Return an offer, and how many purchases of it the account has left; raises Missing."""
        offer = self.catalogue.offers.get(sku)
        if offer is None:
            raise Missing("no such offer")
        [remaining] = await self.remaining(me, [offer])
        return remaining

    async def issue(self, me: AccountId, sku: str) -> str:
        """Return a token for one purchase, bound to the account's active character.

        The errors, in the order of the checks: unknown offer (404), not for sale (409), no
        character (409), all items owned already (409), 60 tokens issued within ten minutes (409).
        """

        def work(tx: Connection) -> str:
            purchases, now, token = SqlPurchases(tx), self.wall_clock(), token_hex(32)
            at_ms = int(now * 1000)
            offer = rules.check_sale(self.catalogue.offers.get(sku))
            character_id = active_character(tx, me)
            if character_id is None:
                raise Conflict("this account has no character")
            entitled = self.entitlements(tx).active(me, now)
            if rules.remaining(offer, held_by(tx, character_id), entitled) == 0:
                raise Conflict("everything in this offer is already owned")
            if purchases.tokens_since(me, at_ms - rules.TOKEN_S * 1000) >= rules.MAX_TOKENS:
                raise Conflict("too many purchases; try again in a few minutes")
            purchases.drop_expired(me, at_ms)
            purchases.add(rules.new_purchase(offer, me, character_id, token, at_ms))
            return token

        return await self.data.write(me, 0, work)

    async def redeem(self, me: AccountId, token: str | None, *, attempt: Attempt = ONLY) -> None:
        """Grant what the token was issued for; if the token is redeemed already, do nothing.

        The errors, in the order of the checks: 400 (malformed token), 403 (token unknown, of
        another account, or of a deleted character), 410 (token expired), 409 (offer changed or no
        longer sold), 409 (inventory full).
        """

        def work(tx: Connection) -> None:
            purchases, now = SqlPurchases(tx), self.wall_clock()
            at_ms = int(now * 1000)
            purchase = purchases.find(rules.hash_of(token))
            if purchase is None or purchase.account_id != me:
                raise rules.NotYours("not one of your purchases")
            if owner_of(tx, purchase.character_id) != me:
                raise rules.NotYours("the character is no longer yours")
            if purchase.redeemed_at is not None:
                return
            offer = self.catalogue.offers.get(purchase.sku)
            offer = rules.check_redeemable(purchase, offer, at_ms)
            self._give(tx, offer, purchase, now)
            for entitlement in offer.entitlements:
                self.entitlements(tx).grant(me, entitlement, 0, f"store:{offer.sku}", now)
            purchases.redeem(purchase, at_ms)

        await self.data.write(me, 0, attempt.once(work))

    def _give(self, tx: Connection, offer: Offer, purchase: Purchase, now: float) -> None:
        """Add the purchased items; raises Conflict if the character would exceed its limits."""
        held = held_by(tx, purchase.character_id)
        stacked, instanced = rules.grant_of(offer, purchase, held)
        if not stacked and not instanced:
            return
        made = [plain(*item) for item in instanced.items()]
        deal = Transaction(
            transaction_id(f"store:{purchase.token_hash}"),
            f"store:{offer.sku}",
            partial(show_transaction, [Fragment(item.body) for item in made], []),
            added=stacked,
            add=made,
        )
        policy = self.policy()
        inventory = SqlInventory(tx, policy.log_bytes)
        owner = purchase.account_id, purchase.character_id
        try:
            inventory.transact(*owner, deal, By.STORE, policy, now)
        except Malformed as error:
            raise Conflict(error.message) from error


def plain(instance_id: str, catalog_id: str) -> Instance:
    """Return a new instanced item without data."""
    shown = {"catalogId": catalog_id, "instanceId": instance_id, "updateVersion": 0}
    return Instance(instance_id, catalog_id, 0, True, json.dump(shown))
