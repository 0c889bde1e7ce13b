"""Every route names its body's shape; no handler parses a body itself."""

from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE, describe
from tests.support.game import GAME_SERVER_KEY, Game

FOR_A_PLAYER = (
    "/breadcrumbs/any",
    "/encountered-content/any",
    "/candidate/join",
    "/inventory",
    "/inventory/instanceditem",
)


def shapeless(part: Any, place: str) -> Iterator[str]:
    """Yield the places in a JSON schema that allow any value without saying why."""
    if not isinstance(part, dict) or ("description" in part and "properties" not in part):
        return
    if part == {"type": "object"}:
        yield f"{place}: an object"
    elif not {"type", "$ref", "anyOf", "enum"} & set(part):
        yield f"{place}: anything"
    for name, schema in part.get("properties", {}).items():
        yield from shapeless(schema, f"{place}.{name}")
    for schema in part.get("anyOf", []):
        yield from shapeless(schema, place)
    for inner in ("items", "additionalProperties"):
        yield from shapeless(part.get(inner), f"{place}[]")


class BodyTests(SynchronousTestCase):
    def test_every_part_of_a_body_or_reply_has_a_shape_or_says_why_not(self) -> None:
        document = describe(Game(self, **EVERY_ROUTE).door.rows, "1.0")
        named = document["components"]["schemas"]
        without_shape = [media for name in named for media in shapeless(named[name], name)]
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                sides = operation.get("requestBody", {}), operation["responses"].get("200", {})
                for side in sides:
                    for media in side.get("content", {}).values():
                        without_shape += shapeless(media["schema"], f"{method} {path}")
        self.assertEqual(without_shape, [])

    def test_every_body_can_be_read(self) -> None:
        # otherwise only the route's first request would show the fault
        for row in Game(self, **EVERY_ROUTE).door.rows:
            if row.body is not None:
                self.assertTrue(callable(reader(row.body)), row.name)

    def test_a_game_server_without_a_player_is_refused_first(self) -> None:
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

    def test_an_inventory_names_its_account_in_an_object(self) -> None:
        for path in ("/inventory", "/inventory/instanceditem"):
            page = Game(self).browse("POST", path, json=[], game_server=GAME_SERVER_KEY)
            self.assertEqual(page.status, 400)
