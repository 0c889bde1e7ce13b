"""How a board takes an update, on a board of plain values. Spec: 1 §4 POST /bounty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.metagame.achievements.bounties.rules import Bounty, in_order, update
from svcserver.metagame.achievements.bounties.wire import NO_DRAFT, BountyIds, BountyUpdate

read_update = reader(BountyUpdate)
STAMP = {"drafted_timestamp": "now"}


def read_ids(body: Any) -> list[str]:
    return list(reader(BountyIds)(body).bounty_ids)


class Board:
    """Bounties of one account."""

    def __init__(self) -> None:
        self.kept: dict[str, Bounty] = {}
        self.draft: bytes | None = None

    def bounties(self, account_id: str) -> dict[str, Bounty]:
        return dict(self.kept)

    def keep(self, account_id: str, bounty: Bounty) -> None:
        self.kept[bounty.id] = bounty

    def drop(self, account_id: str, bounty_ids: Sequence[str]) -> None:
        for one in bounty_ids:
            del self.kept[one]

    def keep_draft(self, account_id: str, draft: bytes) -> None:
        self.draft = draft


class BoardTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.board, self.notes = Board(), list[str]()

    def send(self, *bounties: Any) -> None:
        sent = read_update({"bounties": list(bounties)})
        wanted = [one.bounty("now") for one in sent.bounties]
        update(self.board, "UID-a", wanted, sent.draft(), self.notes)

    def order(self) -> list[str]:
        return [one.id for one in in_order(self.board.kept.values())]

    def test_the_empty_draft(self) -> None:
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

    def test_what_is_skipped_does_not_end_the_update(self) -> None:
        self.send({"bounty_id": "B", "update_version": 5})
        self.send(7, {"bounty_id": "B", "update_version": 4}, {}, {"bounty_id": "A"})
        self.assertEqual(self.order(), ["A", "B"])
        self.assertEqual(self.board.kept["B"].version, 5)
        self.assertEqual(self.notes, ["B: version 4 is older than 5"])

    def test_versions_count_within_one_update_too(self) -> None:
        self.send({"bounty_id": "B", "update_version": 5}, {"bounty_id": "B", "update_version": 4})
        self.assertEqual(self.board.kept["B"].version, 5)
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

    def test_what_has_no_slot_pushes_nobody_and_comes_last(self) -> None:
        self.send({"bounty_id": "C"}, {"bounty_id": "A"}, {"bounty_id": "Z", "slot_index": 9})
        self.send({"bounty_id": "Y", "slot_index": 2})
        self.assertEqual(self.order(), ["Y", "Z", "A", "C"])

    def test_numbers_no_client_can_hold_are_none(self) -> None:
        most = 2**53 - 1
        self.send({"bounty_id": "A", "slot_index": most, "update_version": -most})
        self.send({"bounty_id": "B", "slot_index": most + 1, "update_version": most + 1})
        self.send({"bounty_id": "C", "slot_index": 1.5, "update_version": "3"})
        kept = {one.id: (one.slot, one.version) for one in self.board.kept.values()}
        self.assertEqual(kept, {"A": (most, -most), "B": (None, 0), "C": (None, 0)})

    def test_a_draft_date_is_added_where_there_is_none(self) -> None:
        self.send({"bounty_id": "A"}, {"bounty_id": "B", "drafted_timestamp": "then"})
        self.assertEqual(json.parse(self.board.kept["A"].data)["drafted_timestamp"], "now")
        self.assertEqual(json.parse(self.board.kept["B"].data)["drafted_timestamp"], "then")

    def test_ids_to_delete(self) -> None:
        self.assertEqual(read_ids({"bounty_ids": ["A", 5, "", "B"]}), ["A", "B"])
        for body in ([], "A", None, {}, {"bounty_ids": "A"}):
            self.assertRaises(Malformed, read_ids, body)


class BoundTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.board = Board()
        self.full = len(json.dump([{"bounty_id": one} | STAMP for one in "AB"]))

    def send(self, most: int, *ids: str, draft: Any = None) -> None:
        sent = read_update({"bounties": [{"bounty_id": one} for one in ids]})
        wanted = [one.bounty("now") for one in sent.bounties]
        update(self.board, "UID-a", wanted, draft, [], most)

    def test_a_board_is_full_at_its_bound_and_a_refusal_changes_nothing(self) -> None:
        self.send(self.full, "A", "B")
        self.assertRaises(Conflict, self.send, self.full, "C")
        self.assertEqual(sorted(self.board.kept), ["A", "B"])

    def test_a_board_over_a_bound_that_was_lowered_may_stay_as_large(self) -> None:
        self.send(self.full, "A", "B")
        self.send(self.full - 1, "A")
        self.assertRaises(Conflict, self.send, self.full - 1, "C")

    def test_a_draft_is_bounded_too(self) -> None:
        draft = json.dump({"gold_count": 1})
        size = len(draft)
        self.send(size, draft=draft)
        self.assertEqual(self.board.draft, draft)
        self.assertRaises(Conflict, self.send, size - 1, draft=draft)
