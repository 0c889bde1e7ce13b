"""An entitlement as clients read it, and the duration they may send."""

from __future__ import annotations

from typing import get_args

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.shapes import As
from svcserver.metagame.achievements.wire import Hours, record


class RecordTests(SynchronousTestCase):
    def test_a_whole_duration_has_no_decimal_point_and_others_keep_theirs(self) -> None:
        for hours, shown in ((24.0, "24"), (0.0, "0"), (1.5, "1.5"), (0.25, "0.25")):
            said = json.dump(record("boost", hours, 0)).decode()
            self.assertIn(f'"duration":{shown},', said)

    def test_the_time_is_to_the_millisecond(self) -> None:
        shown = record("boost", 1.0, 1_790_000_123_456)
        self.assertEqual(shown["activatedDate"], "2026-09-21T14:15:23.456Z")
        self.assertEqual(shown["name"], "boost")

    def test_the_document_calls_hours_a_number(self) -> None:
        _, reading = get_args(Hours)
        assert isinstance(reading, As)
        self.assertEqual(reading.documented, {"type": "number"})
