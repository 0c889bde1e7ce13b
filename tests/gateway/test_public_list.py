"""The gateway's own list of public management routes is the rows' list, and no longer."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.policy import MANAGEMENT, PUBLIC_MANAGEMENT, is_under, rule
from tests.support.game import Game


class PublicListTests(SynchronousTestCase):
    def test_the_list_is_that_of_the_rows_marked_public(self) -> None:
        rows = [row for row in Game(self).door.rows if is_under(row.path.lower(), MANAGEMENT)]
        marked = {(row.method, row.path.lower()) for row in rows if row.public}
        marked |= {("HEAD", path) for method, path in marked if method == "GET"}
        self.assertEqual(marked, PUBLIC_MANAGEMENT)

    def test_every_other_management_row_is_closed(self) -> None:
        closed = 0
        for row in Game(self).door.rows:
            if is_under(row.path.lower(), MANAGEMENT) and not row.public:
                target = row.path.replace("<", "").replace(">", "").encode()
                found = rule(
                    row.method.encode(), target, upgrade=b"", has_body=False, gameserver_key=False
                )
                self.assertEqual(found.no and found.no.reason, "admin_route", row.path)
                closed += 1
        self.assertGreater(closed, 0)
