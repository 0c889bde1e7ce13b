"""The rules of breadcrumbs alone."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.digits import MAX_VERSION, MAX_WHOLE
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

    def test_a_version_leaves_room_for_later_ones(self) -> None:
        check(None, MAX_VERSION)
        for stored in (None, 3, MAX_WHOLE):
            self.assertRaises(Conflict, check, stored, MAX_VERSION + 1)
        for stored in (MAX_VERSION, MAX_WHOLE):  # an earlier release took any
            check(stored, 4)
