"""Helpers for tests of belongings: a player with a character, and inventory calls."""

from __future__ import annotations

from typing import Any

from attrs import define

from tests.support.browser import Page
from tests.support.game import GAME_SERVER_KEY, Game, Player


@define
class Owner:
    """A player and one of the player's characters, which a test controls by HTTP requests."""

    game: Game
    player: Player
    character: str

    @classmethod
    def of(cls, game: Game, name: str) -> Owner:
        """Register a player and read the first character, which creates the character."""
        player = game.player(name)
        page = game.browse("GET", "/character", token=player.token)
        return cls(game, player, page.json[0]["id"])

    def another(self) -> Owner:
        """Return an ``Owner`` for the same player's next character."""
        token = self.player.token
        page = self.game.browse("PUT", "/character", json={"name": "Next"}, token=token)
        return Owner(self.game, self.player, page.json["id"])

    def transact(self, **sent: Any) -> Page:
        """Send POST /inventory for the character; the caller may override ``characterId``."""
        body = {"characterId": self.character, **sent}
        return self.game.browse("POST", "/inventory", json=body, token=self.player.token)

    def add(self, catalog_id: str, quantity: int, **sent: Any) -> Page:
        """Add one stack to the inventory."""
        item = {"catalogId": catalog_id, "quantity": quantity}
        return self.transact(addStackedItems=[item], **sent)

    def take(self, catalog_id: str, quantity: int, **sent: Any) -> Page:
        """Remove one stack from the inventory."""
        item = {"catalogId": catalog_id, "quantity": quantity}
        return self.transact(removeStackedItems=[item], **sent)

    def inventory(self) -> dict[str, Any]:
        """Return the character's whole inventory."""
        path = f"/inventory/{self.player.id}/{self.character}"
        page = self.game.browse("GET", path, token=self.player.token)
        assert page.status == 200
        held: dict[str, Any] = page.json
        return held

    def stacks(self) -> dict[str, int]:
        """Return a dict from catalogue id to the quantity of the stack."""
        return {stack["catalogId"]: stack["quantity"] for stack in self.inventory()["stackedItems"]}

    def instances(self) -> dict[str, Any]:
        """Return a dict from instance id to the single item."""
        return {item["instanceId"]: item for item in self.inventory()["instancedItems"]}

    def by_server(self, method: str, path: str, body: Any = None, **sent: Any) -> Page:
        """Send a request as a game server, without a player's token by default."""
        if body is not None:
            sent["json"] = body
        return self.game.browse(method, path, game_server=GAME_SERVER_KEY, **sent)
