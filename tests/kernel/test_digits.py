"""Parsing whole numbers in texts."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.digits import whole_in


class WholeTests(SynchronousTestCase):
    def test_digits_are_a_number_up_to_their_bound(self) -> None:
        for text, number in (("0", 0), ("007", 7), ("999", 999)):
            self.assertEqual(whole_in(text, 3), number)
        self.assertIsNone(whole_in("1000", 3))

    def test_text_other_than_plain_decimal_digits_gives_none(self) -> None:
        for text in ("", "-1", "+1", " 1", "1 ", "1.0", "1_0", "0x1", "²", "１", "٣", "a", "\0"):  # noqa: RUF001
            self.assertIsNone(whole_in(text, 9), text)

    def test_a_very_long_text_of_digits_gives_none(self) -> None:
        self.assertIsNone(whole_in("9" * 100_000, 15))
