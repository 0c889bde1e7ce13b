"""The final audit of the live state that a run leaves behind."""

from collections import defaultdict
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from simulation import livestate
from simulation.livestate import wrong
from simulation.run import Run, Scenario
from simulation.script import Step

MATCH = {"asking_until": 0.0, "known_as": {"ada": "c"}, "queued": True, "players": ["ada"]}
PLACE = {"match_id": "m", "candidate_id": "c"}


class BoardTests(SynchronousTestCase):
    def rules(self, **entries: Any) -> list[str]:
        board: dict[str, dict[str, Any]] = defaultdict(dict, entries)
        return [rule for rule, _ in wrong(board, 1000.0)]

    def test_parties_agree_with_their_members(self) -> None:
        party = {"members": ["ada", "bo"], "leader": "ada"}
        both = {"ada": "p", "bo": "p"}
        self.assertEqual(self.rules(parties={"p": party}, party_of=both), [])
        self.assertEqual(
            self.rules(parties={"p": party}, party_of={"ada": "p"}), ["one party each"]
        )
        self.assertEqual(self.rules(party_of={"ada": "p"}), ["one party each"])
        led = {"members": ["ada", "bo"], "leader": "cleo"}
        self.assertEqual(self.rules(parties={"p": led}, party_of=both), ["one leader"])
        many = {"members": list("abcde"), "leader": "a"}
        seats = dict.fromkeys("abcde", "p")
        self.assertEqual(self.rules(parties={"p": many}, party_of=seats), ["seats within limits"])

    def test_queues_agree_with_matches(self) -> None:
        sound = {"matches": {"m": MATCH}, "candidates": {"ada": PLACE}, "queues": {"hunt": "m"}}
        self.assertEqual(self.rules(**sound), [])
        for changed in (
            {"matches": {"m": MATCH | {"asking_until": 1001.0}}},
            {"matches": {"m": MATCH | {"queued": False}}},
            {"matches": {"m": MATCH | {"players": ["bo"]}}},
            {"candidates": {"ada": PLACE | {"candidate_id": "d"}}},
        ):
            self.assertEqual(self.rules(**{**sound, **changed}), ["live state agrees"], changed)

    def test_expiring_entries_have_expired(self) -> None:
        self.assertEqual(self.rules(online={"ada": 1}), ["live state agrees"])

    def test_entries_are_read_from_all_three_kinds_of_board(self) -> None:
        for seed in (1, 2, 3):
            run = Run(Scenario(seed, 2, 60.0, steps=[Step(1.0, 0, "log_in", 1)]))
            self.assertEqual(run.run().violations, [])
            board = livestate.entries(run.host)
            (party,) = board["parties"].values()
            self.assertEqual(party["members"], list(board["party_of"]))
