"""Each bounty route. Spec: 1 §4 bounties."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.metagame.achievements.bounties.feature import NO_DRAFT, BountyIds, BountyUpdate
from svcserver.metagame.achievements.bounties.rules import Bounty, check_size, in_order, updated
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
        return [bounty["bounty_id"] for bounty in board]

    @proves("GET /bounty/game-data")
    def test_the_fixed_configuration_has_four_slots(self) -> None:
        payload = self.asks("GET", "/bounty/game-data").json["payload"]
        tokens = (payload["bounty_token_id"], payload["premium_bounty_token_id"])
        self.assertEqual(payload["max_slots"], 4)
        self.assertEqual(tokens, ("TOKEN_BOUNTY_DRAFT", "TOKEN_BOUNTY_DRAFT_PREMIUM"))

    @proves("GET /bounty/:userId")
    def test_a_new_account_has_an_empty_bounty_board(self) -> None:
        self.check_marks("GET", self.path, own=True)
        page = self.asks("GET", self.path).json
        self.assertEqual((page["code"], page["payload"]["bounties"]), ("OK", []))
        self.assertEqual(page["payload"]["draft_data"]["gold_count"], 0)

    @proves("POST /bounty/:userId")
    def test_updates_are_partial_and_elements_come_back_as_sent(self) -> None:
        self.game.described.odd = True
        self.check_marks("POST", self.path, json={})
        bounty = {"bounty_id": "B", "slot_index": 1, "update_version": 2, "odd": {"kept": [1]}}
        self.post(bounty, {"bounty_id": "A", "slot_index": 0}, {"slot_index": 3}, 7)
        board = self.post(draft_data={"x": 1}).json["payload"]
        self.assertEqual(self.ids(), ["A", "B"])
        self.assertTrue(board["bounties"][1].pop("drafted_timestamp"))
        self.assertEqual(board["bounties"][1], bounty)
        self.assertEqual(self.post(draft_data=5).json["payload"]["draft_data"], {"x": 1})

    @proves("POST /bounty/:userId")
    def test_an_older_version_is_not_stored(self) -> None:
        self.post({"bounty_id": "B", "update_version": 2, "n": 1})
        for version, n in ((1, 1), (2, 5), (3, 6)):
            page = self.post({"bounty_id": "B", "update_version": version, "n": n}).json
            self.assertEqual(page["payload"]["bounties"][0]["n"], n)

    @proves("POST /bounty/:userId")
    def test_a_bounty_in_a_taken_slot_replaces_the_earlier_bounty(self) -> None:
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
    def test_bounties_are_deleted_by_id_and_unknown_ids_are_ignored(self) -> None:
        path = f"/bounty/delete/{self.ann.id}"
        self.check_marks("POST", path, json={"bounty_ids": []})
        self.post({"bounty_id": "A", "slot_index": 0}, {"bounty_id": "B", "slot_index": 1})
        page = self.server("POST", path, json={"bounty_ids": ["unknown"]}).json
        self.assertEqual(
            [bounty["bounty_id"] for bounty in page["payload"]["bounties"]], ["A", "B"]
        )
        self.game.described.odd = True
        page = self.server("POST", path, json={"bounty_ids": ["A", "unknown", 5]}).json
        self.assertEqual([bounty["bounty_id"] for bounty in page["payload"]["bounties"]], ["B"])
        self.assertEqual(self.server("POST", path, json={}).status, 400)
        self.assertEqual(self.ids(), ["B"])


class StubTests(Achieving):
    environ = {"PROGRESSION_MODE": "stub"}  # noqa: RUF012

    @proves("GET /bounty/:userId", "POST /bounty/:userId")
    def test_the_bounty_stub_replies_with_an_empty_board(self) -> None:
        for method in ("GET", "POST"):
            page = self.asks(method, f"/bounty/{self.ann.id}", json={}).json
            payload = page["payload"]
            self.assertEqual((page["code"], payload["bounties"]), (None, []))
            self.assertEqual(payload["draft_data_daily"], payload["draft_data_weekly"])


read_update = reader(BountyUpdate)
STAMP = {"drafted_timestamp": "now"}


def read_ids(body: Any) -> list[str]:
    return list(reader(BountyIds)(body).bounty_ids)


class BoardTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.board, self.notes = dict[str, Bounty](), list[str]()

    def send(self, *entries: Any) -> None:
        sent = read_update({"bounties": list(entries)})
        bounties = [bounty.bounty("now") for bounty in sent.bounties]
        self.board = updated(self.board, bounties, self.notes)

    def order(self) -> list[str]:
        return [bounty.id for bounty in in_order(self.board.values())]

    def test_an_empty_draft_has_no_choices_and_zero_counts(self) -> None:
        self.assertEqual(
            NO_DRAFT,
            {
                "current_draft_choices": [],
                "previous_draft_selections": [],
                "bronze_count": 0,
                "silver_count": 0,
                "gold_count": 0,
            },
        )

    def test_a_skipped_bounty_does_not_end_the_update(self) -> None:
        self.send({"bounty_id": "B", "update_version": 5})
        self.send(7, {"bounty_id": "B", "update_version": 4}, {}, {"bounty_id": "A"})
        self.assertEqual(self.order(), ["A", "B"])
        self.assertEqual(self.board["B"].version, 5)
        self.assertEqual(self.notes, ["B: version 4 is older than 5"])

    def test_an_older_version_within_one_update_is_ignored(self) -> None:
        self.send({"bounty_id": "B", "update_version": 5}, {"bounty_id": "B", "update_version": 4})
        self.assertEqual(self.board["B"].version, 5)
        self.assertEqual(len(self.notes), 1)

    def test_a_slot_taken_twice_in_one_update_pushes_the_first_out_once(self) -> None:
        self.send(
            {"bounty_id": "A", "slot_index": 1},
            {"bounty_id": "B", "slot_index": 1},
            {"bounty_id": "C", "slot_index": 1},
        )
        self.assertEqual(self.order(), ["C"])
        self.send({"bounty_id": "B", "slot_index": 1}, {"bounty_id": "C", "slot_index": 1})
        self.assertEqual(self.order(), ["C"])

    def test_a_bounty_without_a_slot_replaces_none_and_comes_last(self) -> None:
        self.send({"bounty_id": "C"}, {"bounty_id": "A"}, {"bounty_id": "Z", "slot_index": 9})
        self.send({"bounty_id": "Y", "slot_index": 2})
        self.assertEqual(self.order(), ["Y", "Z", "A", "C"])

    def test_bounty_numbers_outside_the_clients_range_are_dropped(self) -> None:
        most = 2**53 - 1
        self.send({"bounty_id": "A", "slot_index": most, "update_version": -most})
        self.send({"bounty_id": "B", "slot_index": most + 1, "update_version": most + 1})
        self.send({"bounty_id": "C", "slot_index": 1.5, "update_version": "3"})
        numbers = {bounty.id: (bounty.slot, bounty.version) for bounty in self.board.values()}
        self.assertEqual(numbers, {"A": (most, -most), "B": (None, 0), "C": (None, 0)})

    def test_a_draft_date_is_added_where_there_is_none(self) -> None:
        self.send({"bounty_id": "A"}, {"bounty_id": "B", "drafted_timestamp": "then"})
        self.assertEqual(json.parse(self.board["A"].data)["drafted_timestamp"], "now")
        self.assertEqual(json.parse(self.board["B"].data)["drafted_timestamp"], "then")

    def test_only_texts_in_a_list_are_ids_to_delete(self) -> None:
        self.assertEqual(read_ids({"bounty_ids": ["A", 5, "", "B"]}), ["A", "B"])
        for body in ([], "A", None, {}, {"bounty_ids": "A"}):
            self.assertRaises(Malformed, read_ids, body)


class BoundTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.size = len(json.dump([{"bounty_id": name} | STAMP for name in "AB"]))

    def check(self, before: str, after: str, most: int, draft: bytes | None = None) -> None:
        boards = [updated({}, self.bounties(names), []) for names in (before, after)]
        check_size(*boards, draft, most)

    def bounties(self, names: str) -> list[Bounty]:
        sent = read_update({"bounties": [{"bounty_id": name} for name in names]})
        return [bounty.bounty("now") for bounty in sent.bounties]

    def test_a_board_is_full_at_its_bound(self) -> None:
        self.check("", "AB", self.size)
        self.assertRaises(Conflict, self.check, "AB", "ABC", self.size)

    def test_a_board_over_a_lowered_bound_may_stay_as_large(self) -> None:
        self.check("AB", "AB", self.size - 1)
        self.assertRaises(Conflict, self.check, "AB", "ABC", self.size - 1)

    def test_a_draft_over_the_size_limit_is_a_conflict(self) -> None:
        draft = json.dump({"gold_count": 1})
        self.check("", "", len(draft), draft)
        self.assertRaises(Conflict, self.check, "", "", len(draft) - 1, draft)
