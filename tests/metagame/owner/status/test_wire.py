"""The constant replies, word for word. Spec: 1 §4 fixed replies."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.metagame.owner.status import wire


class ConstantTests(SynchronousTestCase):
    def test_they_are_what_the_client_was_proven_with(self) -> None:
        limits = {"DifficultyBias": 1, "GlobalMultiplier": 1, "MaxXPAwarded": 200}
        creator = {"expirationDate": "2099-01-01T01:00:00.041Z", "slug": "NONE", "success": True}
        for said, expected in (
            (wire.MIGRATED, {"migration_failed": False, "migration_finished": True}),
            (wire.TREATMENTS, {"treatments": ["CohortTreatment.Dojo.B"]}),
            (wire.NO_STATS, {"stats": []}),
            (wire.NO_MAIL, {"messages": []}),
            (wire.NO_EVENTS, {"ScheduledItems": []}),
            (wire.HUNT_PASS_XP, {"EventConfigs": [], "GlobalConfig": limits}),
            (wire.CREATOR, creator),
            (wire.MOVED_ITEMS, {"code": None, "message": ""}),
        ):
            self.assertEqual(said, expected)

    def test_the_banner_shows_these_members(self) -> None:
        self.assertEqual(
            sorted(wire.StatusBanner.__required_keys__), sorted(["show-status", *wire.WELCOME])
        )
        self.assertEqual(
            sorted(wire.StatusBanner.__optional_keys__), ["commit", "name", "sourceUrl", "version"]
        )
        self.assertEqual([*wire.WELCOME], ["en", "fr", "it", "es", "de", "pt", "ru", "ja"])
        for text in wire.WELCOME.values():
            self.assertEqual(text.count("{name}"), 1)
