"""What a second save of a season may say. Spec: 1 §4 Escalation."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.metagame.achievements.escalation import acts, rules
from svcserver.metagame.achievements.escalation.rules import State
from svcserver.metagame.achievements.escalation.wire import SeasonSave
from tests.metagame.achievements.escalation.test_escalation import rewards, season


class Kept:
    """Seasons of one account."""

    def __init__(self) -> None:
        self.kept: dict[str, State] = {}

    def find(self, account_id: str, season_id: str) -> State | None:
        return self.kept.get(season_id)

    def keep(self, account_id: str, season_id: str, state: State) -> None:
        self.kept[season_id] = state


class SaveTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.kept, self.notes, self.registry = Kept(), list[str](), acts.load()

    def save(self, body: Any) -> State:
        season = rules.open_season(self.registry, "ESC_SEASON_1")
        sent = rules.canonical(season, self.registry, reader(SeasonSave)(body).values())
        return rules.save(self.kept, "UID-a", season, sent, self.registry, self.notes, strict=True)

    def test_a_repeat_is_said_to_be_one(self) -> None:
        first = self.save(season())
        self.assertIs(self.save(season()), first)
        self.assertEqual(self.notes, ["a repeat: nothing written"])

    def test_a_newer_version_may_stand_where_the_older_stood(self) -> None:
        self.save(season(version=1))
        self.assertEqual(self.save(season(version=2)).version, 2)
        self.assertEqual(self.notes, [])

    def test_a_reward_may_be_collected_from_its_level_on(self) -> None:
        needed = rules.open_season(self.registry, "ESC_SEASON_1").rewards["ESC_Reward_2"]
        sent = season(needed, 0, 1, unlock_progress=rewards("ESC_Reward_2"))
        self.assertEqual(self.save(sent).level, needed)
        self.kept = Kept()
        sent = season(needed - 1, 0, 1, unlock_progress=rewards("ESC_Reward_2"))
        with self.assertRaisesRegex(Conflict, f"needs level {needed}"):
            self.save(sent)

    def test_the_largest_version_is_the_clients(self) -> None:
        self.assertEqual(self.save(season(version=2147483647)).version, 2147483647)
        self.assertRaises(Malformed, self.save, season(version=2147483648))
