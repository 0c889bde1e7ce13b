"""The rules of breadcrumbs alone."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.metagame.achievements.breadcrumbs.rules import check, check_size


class RuleTests(SynchronousTestCase):
    def test_a_list_may_have_as_many_bytes_as_the_setting_says_and_no_more(self) -> None:
        check_size(10, 10)
        self.assertRaises(Malformed, check_size, 11, 10)

    def test_the_version_rises_but_for_the_first_save(self) -> None:
        check(None, 0)
        check(3, 4)
        self.assertRaises(Conflict, check, 3, 3)
