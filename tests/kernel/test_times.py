"""Times in the format of requests and replies."""

from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.times import iso


class IsoTests(SynchronousTestCase):
    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, 4 * 10**12))
    def test_a_stored_millisecond_is_shown_as_that_millisecond(self, at_ms: int) -> None:
        shown = datetime.fromisoformat(iso(at_ms / 1000))
        self.assertEqual(round(shown.timestamp() * 1000), at_ms)

    def test_the_next_second_is_reached_whole(self) -> None:
        self.assertEqual(iso(0), "1970-01-01T00:00:00.000Z")
        self.assertEqual(iso(59.9996), "1970-01-01T00:01:00.000Z")
