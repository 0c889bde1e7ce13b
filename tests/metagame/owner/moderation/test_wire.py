"""An account's name or id in requests of staff."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.owner.moderation.wire import PersonWish

read = reader(PersonWish)


class WhoTests(SynchronousTestCase):
    def test_an_account_is_named_by_one_to_64_characters(self) -> None:
        for name in ("a", "a" * 64):
            self.assertEqual(read({"Account": name, "Reason": "x"}).account, name)
        for name in ("", "a" * 65):
            self.assertRaises(Malformed, read, {"Account": name, "Reason": "x"})
