"""Times in the format of requests and replies."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.times import FAR_FUTURE, iso, short_date


class IsoTests(SynchronousTestCase):
    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, 4 * 10**12))
    def test_a_stored_millisecond_is_shown_as_that_millisecond(self, at_ms: int) -> None:
        shown = datetime.fromisoformat(iso(at_ms / 1000))
        self.assertEqual(round(shown.timestamp() * 1000), at_ms)

    def test_the_next_second_is_reached_whole(self) -> None:
        self.assertEqual(iso(0), "1970-01-01T00:00:00.000Z")
        self.assertEqual(iso(59.9996), "1970-01-01T00:01:00.000Z")

    def test_a_short_date_is_the_utc_day(self) -> None:
        noon = datetime(2026, 9, 5, 23, 59, 59, tzinfo=UTC).timestamp()
        self.assertEqual((short_date(noon), short_date(noon + 1)), ("Sep 5, 2026", "Sep 6, 2026"))

    def test_every_month_has_its_three_letters(self) -> None:
        shown = [
            short_date(datetime(2026, month, 9, tzinfo=UTC).timestamp()) for month in range(1, 13)
        ]
        names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        self.assertEqual(shown, [f"{name} 9, 2026" for name in names])

    def test_the_far_future_is_the_instant_that_the_client_knows(self) -> None:
        self.assertEqual(FAR_FUTURE, "2085-09-09T01:01:01.703Z")
