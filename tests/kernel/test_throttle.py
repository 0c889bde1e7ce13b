"""Log lines that are repeated only after some time has passed."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.throttle import Throttle


class ThrottleTests(SynchronousTestCase):
    def test_a_key_is_due_again_only_after_a_minute(self) -> None:
        throttle = Throttle()
        result = [throttle.due(key, at) for key, at in (("a", 0), ("a", 59), ("b", 59), ("a", 60))]
        self.assertEqual(result, [True, False, True, True])

    def test_the_longest_unused_key_is_forgotten(self) -> None:
        throttle = Throttle(60.0, most=2)
        for key in "abc":
            throttle.due(key, 0)
        self.assertEqual(len(throttle), 2)
        self.assertTrue(throttle.due("a", 1))
        self.assertFalse(throttle.due("c", 1))

    def test_keys_of_a_throttle_are_bounded_and_in_no_repr(self) -> None:
        throttle = Throttle()
        self.assertEqual((throttle.every_s, throttle.most), (60.0, 20_000))
        throttle.due("somebody", 0)
        self.assertNotIn("somebody", repr(throttle))
