"""The front door reads bodies: a row names a shape, and nobody adds one that parses by hand."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.game import Game


class BodyTests(SynchronousTestCase):
    def test_no_row_parses_its_body_by_hand(self) -> None:
        rows = Game(self, BACKEND_HEALTH="1", STORE="free", ESCALATION_MODE="real").door.rows
        self.assertGreater(sum(row.body is not None for row in rows), 40)
        self.assertEqual([row.name for row in rows if row.body is object], [])
