"""What is sold and what a purchase grants, on values alone. Spec: 1 §3, §4 Store."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Conflict
from svcserver.kernel.secrets import fingerprint
from svcserver.metagame.belongings.items import Stacked
from svcserver.metagame.belongings.shop import rules
from svcserver.metagame.belongings.shop.catalogue import Catalogue, Offer
from svcserver.metagame.belongings.shop.rules import Grant, Purchase

BOTH = Offer(
    "both",
    "Both",
    0,
    ("webstore",),
    (("WP_A", 1), ("DYE_B", 1), ("AR_C", 1)),
    (),
    {"WP_A": "instanced", "DYE_B": "stacked", "AR_C": "instanced"},
)
TOKEN = "0123456789abcdef" * 4


class Till:
    """A counter, rights and an inventory core of one account and its character."""

    def __init__(self) -> None:
        self.purchases: dict[str, Purchase] = {}
        self.grants: list[Grant] = []

    def active_character(self, account_id: str) -> str:
        return "c"

    def owner(self, character_id: str) -> str:
        return "UID-a"

    def held(self, character_id: str) -> set[str]:
        return set()

    def tokens_since(self, account_id: str, at_ms: int) -> int:
        return 0

    def drop_expired(self, account_id: str, at_ms: int) -> None:
        pass

    def add(self, purchase: Purchase) -> None:
        self.purchases[purchase.token_hash] = purchase

    redeem = add

    def find(self, token_hash: str) -> Purchase | None:
        return self.purchases.get(token_hash)

    def active(self, account_id: str, now: float) -> set[str]:
        return set()

    def grant(self, *words: Any) -> None:
        raise AssertionError("no entitlement is sold here")

    def give(self, account_id: str, character_id: str, grant: Grant, now: float) -> None:
        self.grants.append(grant)


class SaleTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.till = Till()

    def issue(self, offer: Offer) -> Purchase:
        sold = Catalogue({offer.sku: offer}, {})
        return rules.issue(self.till, self.till, sold, "UID-a", offer.sku, TOKEN, 7.0)

    def test_what_may_not_be_sold_gets_no_token(self) -> None:
        self.assertRaises(Conflict, self.issue, evolve(BOTH, price=5))
        self.assertEqual(self.till.purchases, {})

    def test_one_token_of_a_repeatable_offer_is_enough(self) -> None:
        name = rules.REPEATABLE_ITEM
        offer = evolve(BOTH, items=((name, 1),), kinds={name: "stacked"}, repeatable=True)
        self.assertIs(rules.is_allowed(offer), True)
        self.assertIs(rules.is_allowed(evolve(offer, items=((name, 0),))), False)
        self.assertIs(rules.is_allowed(evolve(BOTH, price=1)), False)

    def test_a_purchase_is_said_and_so_is_its_end(self) -> None:
        bought = self.issue(BOTH)
        self.assertEqual((bought.created_at, bought.expires_at), (7000, 607_000))
        sold = Catalogue({BOTH.sku: BOTH}, {})
        done = rules.redeem(self.till, self.till, self.till, sold, "UID-a", TOKEN, 8.0)
        self.assertEqual(done, evolve(bought, redeemed_at=8000))
        self.assertEqual(self.till.purchases, {fingerprint(TOKEN): done})
        self.assertEqual([one.source for one in self.till.grants], ["store:both"])

    def test_what_is_held_is_left_out_and_the_rest_is_granted_and_echoed(self) -> None:
        bought = self.issue(BOTH)
        grant = rules.grant_of(BOTH, bought, {"WP_A"}, "store:both")
        self.assertEqual(grant.stacked, [Stacked("DYE_B", 1)])
        [(instance_id, catalog_id)] = grant.instanced
        self.assertEqual((catalog_id, len(instance_id)), ("AR_C", 32))
        self.assertEqual(rules.grant_of(BOTH, bought, {"WP_A"}, "store:both"), grant)
        both = rules.grant_of(BOTH, bought, set(), "store:both").instanced
        self.assertEqual(len({one for one, _ in both}), 2)
