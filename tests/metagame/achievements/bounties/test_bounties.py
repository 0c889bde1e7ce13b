"""Bounties row by row. Spec: 1 §4 bounties."""

from __future__ import annotations

from tests.metagame.achievements.progression.base import Achieving
from tests.support.proves import proves


class BountyTests(Achieving):
    def setUp(self) -> None:
        super().setUp()
        self.path = f"/bounty/{self.ann.id}"

    def post(self, *bounties: object, **more: object):
        return self.server("POST", self.path, json={"bounties": list(bounties)} | more)

    def ids(self) -> list[str]:
        board = self.asks("GET", self.path).json["payload"]["bounties"]
        return [one["bounty_id"] for one in board]

    @proves("GET /bounty/game-data")
    def test_the_fixed_configuration_has_four_slots(self) -> None:
        payload = self.asks("GET", "/bounty/game-data").json["payload"]
        tokens = (payload["bounty_token_id"], payload["premium_bounty_token_id"])
        self.assertEqual(payload["max_slots"], 4)
        self.assertEqual(tokens, ("TOKEN_BOUNTY_DRAFT", "TOKEN_BOUNTY_DRAFT_PREMIUM"))

    @proves("GET /bounty/:userId")
    def test_an_empty_board(self) -> None:
        self.check_marks("GET", self.path, own=True)
        page = self.asks("GET", self.path).json
        self.assertEqual((page["code"], page["payload"]["bounties"]), ("OK", []))
        self.assertEqual(page["payload"]["draft_data"]["gold_count"], 0)

    @proves("POST /bounty/:userId")
    def test_updates_are_partial_and_elements_come_back_as_sent(self) -> None:
        self.game.described.odd = True
        self.check_marks("POST", self.path, json={})
        one = {"bounty_id": "B", "slot_index": 1, "update_version": 2, "odd": {"kept": [1]}}
        self.post(one, {"bounty_id": "A", "slot_index": 0}, {"slot_index": 3}, 7)
        board = self.post(draft_data={"x": 1}).json["payload"]
        self.assertEqual(self.ids(), ["A", "B"])
        self.assertTrue(board["bounties"][1].pop("drafted_timestamp"))
        self.assertEqual(board["bounties"][1], one)
        self.assertEqual(self.post(draft_data=5).json["payload"]["draft_data"], {"x": 1})

    @proves("POST /bounty/:userId")
    def test_an_older_version_is_not_stored(self) -> None:
        self.post({"bounty_id": "B", "update_version": 2, "n": 1})
        for version, n in ((1, 1), (2, 5), (3, 6)):
            page = self.post({"bounty_id": "B", "update_version": version, "n": n}).json
            self.assertEqual(page["payload"]["bounties"][0]["n"], n)

    @proves("POST /bounty/:userId")
    def test_a_taken_slot_pushes_the_other_out(self) -> None:
        self.post({"bounty_id": "A", "slot_index": 0}, {"bounty_id": "B", "slot_index": 1})
        self.post({"bounty_id": "C", "slot_index": 0})
        self.assertEqual(self.ids(), ["C", "B"])

    @proves("POST /bounty/:userId")
    def test_bad_bodies_change_nothing(self) -> None:
        for body in ([], {"bounties": {}}, {"bounties": "x"}):
            self.assertEqual(self.server("POST", self.path, json=body).status, 400)
        self.assertEqual(self.server("POST", "/bounty/UID-no", json={}).status, 404)
        self.assertEqual(self.ids(), [])

    @proves("POST /bounty/delete/:userId")
    def test_delete_by_id(self) -> None:
        path = f"/bounty/delete/{self.ann.id}"
        self.check_marks("POST", path, json={"bounty_ids": []})
        self.post({"bounty_id": "A", "slot_index": 0}, {"bounty_id": "B", "slot_index": 1})
        page = self.server("POST", path, json={"bounty_ids": ["unknown"]}).json
        self.assertEqual([one["bounty_id"] for one in page["payload"]["bounties"]], ["A", "B"])
        self.game.described.odd = True
        page = self.server("POST", path, json={"bounty_ids": ["A", "unknown", 5]}).json
        self.assertEqual([one["bounty_id"] for one in page["payload"]["bounties"]], ["B"])
        self.assertEqual(self.server("POST", path, json={}).status, 400)
        self.assertEqual(self.ids(), ["B"])


class StubTests(Achieving):
    environ = {"PROGRESSION_MODE": "stub"}  # noqa: RUF012

    @proves("GET /bounty/:userId", "POST /bounty/:userId")
    def test_the_empty_board(self) -> None:
        for method in ("GET", "POST"):
            page = self.asks(method, f"/bounty/{self.ann.id}", json={}).json
            payload = page["payload"]
            self.assertEqual((page["code"], payload["bounties"]), (None, []))
            self.assertEqual(payload["draft_data_daily"], payload["draft_data_weekly"])
