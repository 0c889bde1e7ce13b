"""The front door reads bodies: a row names a shape, and nobody adds one that parses by hand."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.game import GAME_SERVER_KEY, Game

FOR_A_PLAYER = (
    "/breadcrumbs/any",
    "/encountered-content/any",
    "/candidate/join",
    "/inventory",
    "/inventory/instanceditem",
)


class BodyTests(SynchronousTestCase):
    def test_no_row_parses_its_body_by_hand(self) -> None:
        rows = Game(self, BACKEND_HEALTH="1", STORE="free", ESCALATION_MODE="real").door.rows
        self.assertGreater(sum(row.body is not None for row in rows), 40)
        self.assertEqual([row.name for row in rows if row.body is object], [])

    def test_a_game_server_that_acts_for_nobody_is_told_so_before_its_body_is_read(self) -> None:
        game = Game(self)
        token = game.player("Ann_1").token
        bad = {"addStackedItems": 5, "breadcrumbs": 5, "content_type": "x", "gameMode": 5}
        for path in FOR_A_PLAYER:
            alone = game.browse("POST", path, json=bad, game_server=GAME_SERVER_KEY)
            self.assertEqual((path, alone.status, alone.body), (path, 403, b""))
            with_a_player = game.browse(
                "POST", path, json=bad, game_server=GAME_SERVER_KEY, token=token
            )
            self.assertEqual((path, with_a_player.status), (path, 400))

    def test_an_inventory_names_its_account_in_an_object_or_is_no_transaction(self) -> None:
        for path in ("/inventory", "/inventory/instanceditem"):
            page = Game(self).browse("POST", path, json=[], game_server=GAME_SERVER_KEY)
            self.assertEqual(page.status, 400)
