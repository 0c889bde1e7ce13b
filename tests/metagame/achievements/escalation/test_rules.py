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


class SaveTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.notes, self.registry = list[str](), acts.load()
        self.stored: State | None = None

    def save(self, body: Any) -> State:
        season = rules.open_season(self.registry, "ESC_SEASON_1")
        sent = rules.canonical(season, self.registry, reader(SeasonSave)(body).values())
        if rules.accept(self.stored, sent, season, self.registry, self.notes, strict=True):
            self.stored = sent
        return self.stored

    def test_a_repeat_is_not_stored_again(self) -> None:
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
        self.stored = None
        sent = season(needed - 1, 0, 1, unlock_progress=rewards("ESC_Reward_2"))
        with self.assertRaisesRegex(Conflict, f"needs level {needed}"):
            self.save(sent)

    def test_the_largest_version_is_the_clients(self) -> None:
        self.assertEqual(self.save(season(version=2147483647)).version, 2147483647)
        self.assertRaises(Malformed, self.save, season(version=2147483648))
