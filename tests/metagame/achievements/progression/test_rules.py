"""Grants, objectives and confirmations at their edges. Spec: 1 §4 Progression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.achievements.progression import rules, wire
from svcserver.metagame.achievements.progression.rules import Grant, Objective, Path, Track

PATH = Path("T", "", ((1, 10), (2, 10), (3, 10)), None, {"public": [(1, "a"), (2, "b")]})


def read_grant(body: Any) -> Grant:
    sent: wire.GrantBody = reader(wire.GrantBody)(body)
    return sent.grant()


class Progress:
    """Progress of one account."""

    def __init__(self, *tracks: Track) -> None:
        self.kept = {one.id: one for one in tracks}
        self.goals: dict[str, Objective] = {}

    def tracks(self, account_id: str) -> Mapping[str, Track]:
        return dict(self.kept)

    def keep_track(self, account_id: str, track: Track) -> None:
        self.kept[track.id] = track

    def drop_track(self, account_id: str, track_id: str) -> None:
        self.kept.pop(track_id, None)

    def objectives(self, account_id: str) -> Mapping[str, Objective]:
        return dict(self.goals)

    def keep_objectives(self, account_id: str, changed: Sequence[Objective]) -> None:
        self.goals |= {one.id: one for one in changed}

    def drop_objectives(self, account_id: str) -> None:
        self.goals.clear()


class GrantTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.book, self.notes = Progress(), list[str]()

    def objective(self, value: int, count: int | None = None) -> Objective:
        sent = {"objective_id": "o", "value": value, "completed_count": count}
        grant = read_grant({"objectives": [sent]})
        [said] = rules.apply_grant(self.book, "UID-a", grant, 100, 7, self.notes)[1]
        return said

    def add(self, amount: str) -> Track:
        more = wire.amount_in_path("T", amount)
        return rules.add(self.book, "UID-a", "T", more, 5, [])

    def test_the_largest_numbers_are_the_clients(self) -> None:
        self.assertEqual((rules.INT_MAX, rules.INT_MIN), (2147483647, -2147483648))
        track = self.add("2147483647")
        self.assertEqual(track.progress, 5)
        for amount in ("2147483648", "-2147483649", "1.5", "", "x", "1\n"):
            with self.assertRaises(Malformed):
                self.add(amount)
        self.assertEqual(self.add("-2147483648").progress, 5)

    def test_half_an_objective_is_skipped(self) -> None:
        sent = [{"objective_id": "o"}, {"value": 1}, {"objective_id": "", "value": 1}]
        self.assertEqual(read_grant({"objectives": sent}).objectives, {})

    def test_an_objective_is_new_without_completions_and_keeps_those_it_has(self) -> None:
        self.assertEqual(self.objective(3), Objective("o", 3, 0, 7, 7))
        self.assertEqual(self.objective(4, 2).completed_count, 2)
        self.assertEqual(self.objective(4).completed_count, 2)
        self.assertEqual(self.notes, [])
        self.objective(3)
        self.assertEqual(self.notes, ["o: lowered from 4 to 3"])
        self.objective(1, 3)  # completed once more: it begins anew
        self.assertEqual(len(self.notes), 1)


class ConfirmTests(SynchronousTestCase):
    def test_a_rank_gives_its_entitlements_once(self) -> None:
        book = Progress(Track("T", 20))
        for rank, given in ((1, [(1, "a")]), (2, [(2, "b")]), (2, [])):
            ask = wire.confirmation(str(rank), "public")
            self.assertEqual(rules.confirm(book, "UID-a", PATH, ask, set(), 9)[1], given)
        self.assertEqual(book.kept["T"].confirmed_free, 2)


class SeedTests(SynchronousTestCase):
    def test_fresh_puts_every_track_to_0_the_unknown_ones_last(self) -> None:
        book = Progress(Track("Old", 5, 1, 1, 1), Track("T", 20, 2))
        book.goals["o"] = Objective("o", 1, 1, 1, 1)
        said = rules.seed(book, "UID-a", {"T": PATH, "U": evolve(PATH, id="U")}, "fresh", 9)
        self.assertEqual(said, [Track("T"), Track("U"), Track("Old")])
        self.assertEqual((book.kept["Old"], book.goals), (Track("Old"), {}))
