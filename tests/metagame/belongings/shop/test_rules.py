"""The catalogue, current offers and the grant for a purchase. Spec: 1 §3, §4 Store."""

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import datafiles
from svcserver.kernel.datafiles import BadData
from svcserver.kernel.refusals import Conflict
from svcserver.metagame.belongings.shop import catalogue, rules
from svcserver.metagame.belongings.shop.catalogue import Offer
from svcserver.metagame.belongings.shop.rules import Purchase, is_allowed
from tests.support.proves import proves

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

    def test_held_items_are_not_granted_again(self) -> None:
        bought = purchase(BOTH)
        stacked, instanced = rules.grant_of(BOTH, bought, {"WP_A"})
        self.assertEqual(stacked, {"DYE_B": 1})
        [(instance_id, catalog_id)] = instanced.items()
        self.assertEqual((catalog_id, len(instance_id)), ("AR_C", 32))
        self.assertEqual(rules.grant_of(BOTH, bought, {"WP_A"}), (stacked, instanced))
        self.assertEqual(len(rules.grant_of(BOTH, bought, set())[1]), 2)


class CatalogueTests(SynchronousTestCase):
    def file(self, **change: Any) -> dict[str, Any]:
        return {**datafiles.read_json(catalogue.PACKAGE, catalogue.FILE), **change}

    def offer(self, **row: Any) -> Any:
        rows = [{"id": "x", "name": "X", "tags": ["webstore"], **row}]
        offers = catalogue.parse_catalogue(
            self.file(offers=rows, repeatable=["rep"]), repeatable=True
        )
        return next(iter(offers.offers.values()))

    def test_every_shipped_offer_may_be_sold(self) -> None:
        shipped = catalogue.load(repeatable=True)
        self.assertEqual(
            [offer.sku for offer in shipped.offers.values() if not is_allowed(offer)], []
        )

    @proves("GET /token/:currency/:skuId")
    def test_an_offer_that_breaks_a_rule_may_not_be_sold(self) -> None:
        self.assertTrue(is_allowed(self.offer(items=["WP_EB_KATSCLAW"])))
        for row in (
            {"items": ["WP_EB_KATSCLAW"], "price": 1},
            {"items": ["WP_EB_KATSCLAW*2"]},
            {"items": ["WP_EB_OF_NO_KIND"]},
            {"items": ["CURRENCY_NOTES"]},
            {"items": ["TOKEN_BOUNTY_DRAFT_PREMIUM*20"]},
            {"items": []},
            {"items": None},
            {"id": "rep", "items": ["WP_EB_KATSCLAW"]},
            {"id": "rep", "items": ["TOKEN_BOUNTY_DRAFT_PREMIUM*2", "WP_EB_KATSCLAW"]},
            {"id": "rep", "items": ["TOKEN_BOUNTY_DRAFT_PREMIUM"], "entitlements": ["e"]},
            {"id": "rep", "items": None, "entitlements": ["e"]},
        ):
            self.assertFalse(is_allowed(self.offer(**row)), row)

    def test_a_bad_file_is_refused_with_its_name(self) -> None:
        good = {"id": "x", "name": "X", "tags": ["t"], "items": []}
        bad_rows: list[Any] = [
            {**good, **change}
            for change in (
                {"id": "A B"},
                {"id": None},
                {"name": ""},
                {"tags": []},
                {"tags": "t"},
                {"items": ["a b"]},
                {"items": [1]},
                {"items": ["A*0"]},
                {"entitlements": [""]},
                {"price": -1},
                {"price": "0"},
                {"priority": 1.5},
            )
        ]
        files: list[Any] = [{"offers": [row]} for row in bad_rows]
        shipped = datafiles.read_json(catalogue.PACKAGE, catalogue.FILE)
        files += [{"offers": [good, good]}, {"offers": None}, {"offers": [1]}, {"stacked": [1]}]
        for change in files:
            self.patch(datafiles, "read_json", lambda *_, file={**shipped, **change}: file)
            with self.assertRaises(BadData) as caught:
                catalogue.load(repeatable=False)
            self.assertIn("catalogue.json", str(caught.exception))
