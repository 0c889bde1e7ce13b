"""Which offers of the data file may be sold."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import datafiles
from svcserver.kernel.datafiles import BadData
from svcserver.metagame.belongings.shop import catalogue
from svcserver.metagame.belongings.shop.rules import is_allowed
from tests.support.proves import proves


class CatalogueTests(SynchronousTestCase):
    def file(self, **change: Any) -> dict[str, Any]:
        return {**datafiles.read(catalogue.PACKAGE, catalogue.FILE), **change}

    def offer(self, **row: Any) -> Any:
        rows = [{"id": "x", "name": "X", "tags": ["webstore"], **row}]
        said = catalogue.read(self.file(offers=rows, repeatable=["rep"]), repeatable=True)
        return next(iter(said.offers.values()))

    def test_every_shipped_offer_may_be_sold(self) -> None:
        shipped = catalogue.load(repeatable=True)
        self.assertEqual([one.sku for one in shipped.offers.values() if not is_allowed(one)], [])

    @proves("GET /token/:currency/:skuId")
    def test_what_may_not_be_sold(self) -> None:
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
            {**good, **one}
            for one in (
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
        shipped = datafiles.read(catalogue.PACKAGE, catalogue.FILE)
        files += [{"offers": [good, good]}, {"offers": None}, {"offers": [1]}, {"stacked": [1]}]
        for change in files:
            self.patch(datafiles, "read", lambda *_, file={**shipped, **change}: file)
            with self.assertRaises(BadData) as caught:
                catalogue.load(repeatable=False)
            self.assertIn("catalogue.json", str(caught.exception))
