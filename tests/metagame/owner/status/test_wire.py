"""The constant replies, word for word. Spec: 1 §4 fixed replies."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner import status


class ConstantTests(SynchronousTestCase):
    def test_they_are_what_the_client_was_proven_with(self) -> None:
        limits = {"DifficultyBias": 1, "GlobalMultiplier": 1, "MaxXPAwarded": 200}
        creator = {"expirationDate": "2099-01-01T01:00:00.041Z", "slug": "NONE", "success": True}
        for constant, expected in (
            (status.MIGRATED, {"migration_failed": False, "migration_finished": True}),
            (status.TREATMENTS, {"treatments": ["CohortTreatment.Dojo.B"]}),
            (status.NO_STATS, {"stats": []}),
            (status.NO_MAIL, {"messages": []}),
            (status.NO_EVENTS, {"ScheduledItems": []}),
            (status.HUNT_PASS_XP, {"EventConfigs": [], "GlobalConfig": limits}),
            (status.CREATOR, creator),
            (status.MOVED_ITEMS, {"code": None, "message": ""}),
        ):
            self.assertEqual(constant, expected)

    def test_the_banner_shows_these_members(self) -> None:
        self.assertEqual(
            sorted(status.StatusBanner.__required_keys__), sorted(["show-status", *status.WELCOME])
        )
        self.assertEqual(
            sorted(status.StatusBanner.__optional_keys__),
            ["commit", "name", "sourceUrl", "version"],
        )
        self.assertEqual([*status.WELCOME], ["en", "fr", "it", "es", "de", "pt", "ru", "ja"])
        for text in status.WELCOME.values():
            self.assertEqual(text.count("{name}"), 1)
