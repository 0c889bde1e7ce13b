"""What is said again only after a while."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.seldom import Seldom


class SeldomTests(SynchronousTestCase):
    def test_each_key_is_said_once_in_its_time(self) -> None:
        seldom = Seldom(60.0)
        said = [seldom.now(key, at) for key, at in (("a", 0), ("a", 59), ("b", 59), ("a", 60))]
        self.assertEqual(said, [True, False, True, True])

    def test_the_longest_unused_key_is_forgotten(self) -> None:
        seldom = Seldom(60.0, most=2)
        for key in "abc":
            seldom.now(key, 0)
        self.assertEqual(len(seldom), 2)
        self.assertTrue(seldom.now("a", 1))
        self.assertFalse(seldom.now("c", 1))
