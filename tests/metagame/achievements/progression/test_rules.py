"""Edge cases of grants, objectives and confirmations. Spec: 1 §4 Progression."""

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


class GrantTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.tracks: dict[str, Track] = {}
        self.objectives: dict[str, Objective] = {}
        self.notes: list[str] = []

    def objective(self, value: int, count: int | None = None) -> Objective:
        sent = {"objective_id": "o", "value": value, "completed_count": count}
        values = read_grant({"objectives": [sent]}).objectives
        [objective] = rules.set_objectives(self.objectives, values, 7, self.notes)
        self.objectives["o"] = objective
        return objective

    def add(self, amount: str) -> Track:
        amounts = {"T": max(wire.amount_in_path("T", amount), 0)}
        [self.tracks["T"]] = rules.grown_tracks(self.tracks, amounts, 5, [])
        return self.tracks["T"]

    def test_amounts_outside_the_clients_range_are_refused(self) -> None:
        self.assertEqual((rules.INT_MAX, rules.INT_MIN), (2147483647, -2147483648))
        track = self.add("2147483647")
        self.assertEqual(track.progress, 5)
        for amount in ("2147483648", "-2147483649", "1.5", "", "x", "1\n"):
            with self.assertRaises(Malformed):
                self.add(amount)
        self.assertEqual(self.add("-2147483648").progress, 5)

    def test_an_objective_without_id_or_value_is_skipped(self) -> None:
        sent = [{"objective_id": "o"}, {"value": 1}, {"objective_id": "", "value": 1}]
        self.assertEqual(read_grant({"objectives": sent}).objectives, {})

    def test_an_objective_starts_without_completions_and_keeps_them(self) -> None:
        self.assertEqual(self.objective(3), Objective("o", 3, 0, 7, 7))
        self.assertEqual(self.objective(4, 2).completed_count, 2)
        self.assertEqual(self.objective(4).completed_count, 2)
        self.assertEqual(self.notes, [])
        self.objective(3)
        self.assertEqual(self.notes, ["o: lowered from 4 to 3"])
        self.objective(1, 3)  # completed again, so the count starts again
        self.assertEqual(len(self.notes), 1)


class ConfirmTests(SynchronousTestCase):
    def test_a_rank_gives_its_entitlements_once(self) -> None:
        track = Track("T", 20)
        for rank, expected in ((1, [(1, "a")]), (2, [(2, "b")]), (2, [])):
            ask = wire.confirmation(str(rank), "public")
            track, granted = rules.confirm(track, PATH, ask, set(), 9)
            self.assertEqual(granted, expected)
        self.assertEqual(track.confirmed_free, 2)


class SeedTests(SynchronousTestCase):
    def test_fresh_sets_every_track_to_0_and_lists_unknown_tracks_last(self) -> None:
        stored = {"Old": Track("Old", 5, 1, 1, 1), "T": Track("T", 20, 2)}
        tracks = rules.seeded(stored, {"T": PATH, "U": evolve(PATH, id="U")}, "fresh", 9)
        self.assertEqual(tracks, [Track("T"), Track("U"), Track("Old")])
