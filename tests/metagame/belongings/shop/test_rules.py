"""What is sold and what a purchase grants, on values alone. Spec: 1 §3, §4 Store."""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Conflict, Gone
from svcserver.metagame.belongings.shop import rules
from svcserver.metagame.belongings.shop.catalogue import Offer
from svcserver.metagame.belongings.shop.rules import Purchase

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


def purchase(offer: Offer) -> Purchase:
    return rules.new_purchase(offer, "UID-a", "c", TOKEN, 7000)


class SaleTests(SynchronousTestCase):
    def test_an_offer_with_a_price_is_not_sold(self) -> None:
        self.assertEqual(rules.check_sale(BOTH), BOTH)
        self.assertRaises(Conflict, rules.check_sale, evolve(BOTH, price=5))

    def test_one_token_of_a_repeatable_offer_is_enough(self) -> None:
        name = rules.REPEATABLE_ITEM
        offer = evolve(BOTH, items=((name, 1),), kinds={name: "stacked"}, repeatable=True)
        self.assertIs(rules.is_allowed(offer), True)
        self.assertIs(rules.is_allowed(evolve(offer, items=((name, 0),))), False)
        self.assertIs(rules.is_allowed(evolve(BOTH, price=1)), False)

    def test_a_purchase_stores_the_hash_and_lives_ten_minutes(self) -> None:
        bought = purchase(BOTH)
        self.assertEqual((bought.created_at, bought.expires_at), (7000, 607_000))
        self.assertEqual(bought.token_hash, rules.hash_of(TOKEN))
        self.assertEqual(rules.check_redeemable(bought, BOTH, 607_000), BOTH)
        self.assertRaises(Gone, rules.check_redeemable, bought, BOTH, 607_001)

    def test_held_items_are_not_granted_again(self) -> None:
        bought = purchase(BOTH)
        stacked, instanced = rules.grant_of(BOTH, bought, {"WP_A"})
        self.assertEqual(stacked, {"DYE_B": 1})
        [(instance_id, catalog_id)] = instanced.items()
        self.assertEqual((catalog_id, len(instance_id)), ("AR_C", 32))
        self.assertEqual(rules.grant_of(BOTH, bought, {"WP_A"}), (stacked, instanced))
        self.assertEqual(len(rules.grant_of(BOTH, bought, set())[1]), 2)
