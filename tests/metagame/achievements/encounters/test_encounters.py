"""Encountered content row by row. Spec: 1 §4 encountered content."""

from __future__ import annotations

from tests.metagame.achievements.encounters.base import WithCharacter
from tests.support.proves import proves

PATH = "/encountered-content"


class EncounterTests(WithCharacter):
    @proves(
        "GET /encountered-content/:characterId/:contentType",
        "POST /encountered-content/:characterId",
    )
    def test_what_was_met_is_read_by_type_and_once(self) -> None:
        for name in ("NPC_B", "NPC_A", "NPC_B"):
            body = {"content_type": 2, "content_id": name}
            page = self.asks("POST", f"{PATH}/hers", json=body)
            self.assertEqual(page.json, {"code": None, "message": "OK", "payload": {}})
        page = self.asks("GET", f"{PATH}/hers/2").json["payload"]
        entry = {"content": ["NPC_B", "NPC_A"], "content_type": 2}
        self.assertEqual(page, {"content_types": [entry], "success": True})

    @proves("POST /encountered-content/query/:characterId")
    def test_a_query_answers_in_the_asked_order(self) -> None:
        self.asks("POST", f"{PATH}/hers", json={"content_type": 1, "content_id": "M"})
        page = self.asks("POST", f"{PATH}/query/hers", json={"content_types": [3, 1]}).json
        types = page["payload"]["content_types"]
        self.assertEqual(types[0], {"content": [], "content_type": 3})
        self.assertEqual(types[1], {"content": ["M"], "content_type": 1})
        for body in ({}, [], {"content_types": 5}, {"content_types": ["1"]}):
            self.assertEqual(self.asks("POST", f"{PATH}/query/hers", json=body).status, 400)

    @proves(
        "GET /encountered-content/:characterId/:contentType",
        "POST /encountered-content/:characterId",
        "POST /encountered-content/query/:characterId",
    )
    def test_only_ones_own_character(self) -> None:
        good = {"content_type": 1, "content_id": "M"}
        for who in ("his", "nobody"):
            for page in (
                self.asks("GET", f"{PATH}/{who}/1"),
                self.asks("POST", f"{PATH}/{who}", json=good),
                self.asks("POST", f"{PATH}/query/{who}", json={"content_types": [1]}),
            ):
                self.assertEqual((page.status, page.body), (403, b""))
        self.assertEqual(self.server("GET", f"{PATH}/hers/1").status, 403)
        self.assertEqual(self.game.browse("GET", f"{PATH}/hers/1").status, 401)

    @proves(
        "GET /encountered-content/:characterId/:contentType",
        "POST /encountered-content/:characterId",
    )
    def test_bad_types_and_ids_are_400(self) -> None:
        bad = [{}, [], {"content_type": 8, "content_id": "x"}, {"content_type": 1}]
        bad += [{"content_type": "1", "content_id": "x"}, {"content_type": 1, "content_id": ""}]
        for body in bad:
            self.assertEqual(self.asks("POST", f"{PATH}/hers", json=body).status, 400)
        self.assertEqual(self.asks("GET", f"{PATH}/hers/x").status, 400)
