"""A place is taken before the act, and given back when there was none."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.quota import Quota


class QuotaTests(SynchronousTestCase):
    def test_no_more_than_the_limit_in_any_window(self) -> None:
        quota = Quota(2, 10.0)
        self.assertEqual([quota.take("ann", at) for at in (0.0, 5.0, 9.9)], [True, True, False])
        self.assertTrue(quota.take("bob", 9.9), "keys do not share")
        self.assertEqual([quota.take("ann", at) for at in (10.0, 14.9, 15.0)], [True, False, True])

    def test_a_place_given_back_can_be_taken_again(self) -> None:
        quota = Quota(1, 10.0)
        self.assertTrue(quota.take("ann", 1.0))
        quota.give_back("ann", 1.0)
        self.assertEqual(len(quota), 0)
        self.assertTrue(quota.take("ann", 2.0))
        quota.give_back("ann", 1.0)
        self.assertFalse(quota.take("ann", 3.0), "only what was taken can be given back")
        quota.give_back("nobody", 1.0)

    def test_a_place_is_kept_only_by_an_act_that_used_it(self) -> None:
        quota = Quota(1, 10.0)
        with quota.place("ann", 1.0) as place:
            self.assertTrue(place.free)
            self.assertFalse(quota.take("ann", 1.0), "it is taken for the time of the act")
        with self.assertRaises(OSError), quota.place("ann", 2.0):
            raise OSError
        with quota.place("ann", 3.0) as place:
            place.used = True
        with quota.place("ann", 4.0) as place:
            self.assertFalse(place.free)
        self.assertEqual(len(quota), 1)

    def test_the_longest_unused_key_is_forgotten(self) -> None:
        quota = Quota(1, 10.0, max_keys=2)
        for key in ("ann", "bob", "cat"):
            quota.take(key, 0.0)
        self.assertEqual(len(quota), 2)
        self.assertTrue(quota.take("ann", 0.0))
        self.assertFalse(quota.take("cat", 0.0))
