"""Edge cases of entitlement durations and of repeated grants. Spec: 1 §2 Entitlement."""

from typing import Any, get_args

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import As
from svcserver.metagame.achievements.entitlements import rules
from svcserver.metagame.achievements.entitlements.feature import SqlEntitlements
from svcserver.metagame.achievements.entitlements.rules import Entitlement, granted
from svcserver.metagame.achievements.wire import Hours, record
from tests.support.ledger import InstantLedger

HOUR_MS = 3_600_000
hours_or_null = reader(Hours | None)


def hours(sent: Any) -> float:
    return hours_or_null(sent) or 0.0


class HourTests(SynchronousTestCase):
    def test_a_duration_is_0_to_a_thousand_million_hours(self) -> None:
        self.assertEqual([hours(sent) for sent in (None, 0, 0.0, 1.5)], [0, 0, 0, 1.5])
        self.assertEqual(hours(1_000_000_000), 1e9)
        for bad in (1_000_000_001, -0.001, float("nan"), float("inf"), "1", True, [], {}):
            with self.assertRaises(Malformed) as caught:
                hours(bad)
            self.assertEqual(caught.exception.code, "bad_request", bad)


class GrantTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.timed = Entitlement("X", 1.0, 1000, "shop")
        self.forever = evolve(self.timed, duration=0.0)

    def test_a_timed_grant_holds_up_to_its_last_millisecond(self) -> None:
        self.assertIs(self.timed.holds(1000 + HOUR_MS - 1), True)
        self.assertIs(self.timed.holds(1000 + HOUR_MS), False)
        self.assertIs(self.forever.holds(10**15), True)
        self.assertIs(evolve(self.forever, revoked=True).holds(1000), False)
        short = evolve(self.timed, duration=0.5)
        self.assertEqual((short.holds(1000 + HOUR_MS // 4), short.holds(1000 + HOUR_MS)), (1, 0))

    def test_a_permanent_grant_replaces_a_timed_grant_keeping_its_start(self) -> None:
        fresh = Entitlement("X", 0.0, 2000, "hunt")
        self.assertEqual(granted(self.timed, fresh), Entitlement("X", 0.0, 1000, "hunt"))

    def test_a_timed_grant_over_a_permanent_grant_changes_nothing(self) -> None:
        fresh = Entitlement("X", 5.0, 2000, "hunt")
        self.assertIs(granted(self.forever, fresh), self.forever)

    def test_hours_add_up_to_at_most_the_longest_duration(self) -> None:
        fresh = Entitlement("X", 2.5, 2000, "hunt")
        self.assertEqual(granted(self.timed, fresh), Entitlement("X", 3.5, 1000, "hunt"))
        longest = granted(self.timed, evolve(fresh, duration=1e9))
        self.assertEqual(longest.duration, 1e9)

    def test_an_expired_entitlement_is_replaced(self) -> None:
        late = Entitlement("X", 1.0, 1000 + HOUR_MS, "hunt")
        self.assertIs(granted(self.timed, late), late)
        self.assertIs(granted(evolve(self.forever, revoked=True), late), late)
        self.assertIs(granted(None, late), late)

    def test_only_missing_defaults_are_added(self) -> None:
        held = {"X": evolve(self.timed, revoked=True)}
        with_defaults = rules.with_defaults(held, ["X", "D"], 7)
        self.assertEqual(with_defaults, {**held, "D": Entitlement("D", 0.0, 7, "default")})

    def test_a_revocation_returns_whether_it_was_in_force(self) -> None:
        def work(tx: Any) -> None:
            store = SqlEntitlements(tx)
            store.put("UID-a", self.timed)
            self.assertIs(store.revoke("UID-a", None, 1000), False)
            self.assertIs(store.revoke("UID-a", self.timed, 1000), True)
            revoked = store.all("UID-a")["X"]
            self.assertTrue(revoked.revoked)
            self.assertIs(store.revoke("UID-a", revoked, 1000), False)

        InstantLedger().run(work)


class RecordTests(SynchronousTestCase):
    def test_a_whole_duration_has_no_decimal_point_and_others_keep_theirs(self) -> None:
        for hours, shown in ((24.0, "24"), (0.0, "0"), (1.5, "1.5"), (0.25, "0.25")):
            text = json.dump(record("boost", hours, 0)).decode()
            self.assertIn(f'"duration":{shown},', text)

    def test_the_time_is_to_the_millisecond(self) -> None:
        shown = record("boost", 1.0, 1_790_000_123_456)
        self.assertEqual(shown["activatedDate"], "2026-09-21T14:15:23.456Z")
        self.assertEqual(shown["name"], "boost")

    def test_hours_are_documented_as_a_number(self) -> None:
        _, reading = get_args(Hours)
        assert isinstance(reading, As)
        self.assertEqual(reading.documented, {"type": "number"})
