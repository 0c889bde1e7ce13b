"""Single items, and changes that a game server makes on behalf of a player."""

from typing import Any

from sqlalchemy import func, select
from twisted.logger import capturedLogs

from svcserver.metagame.belongings.inventory.store import ITEM_LOG
from tests.metagame.belongings.inventory.base import Case, sword
from tests.support.belongings import Owner
from tests.support.game import GAME_SERVER_KEY
from tests.support.proves import proves


class SingleItemTests(Case):
    def update(self, **sent: Any) -> Any:
        body = {"characterId": self.ann.character, **sent}
        return self.game.browse(
            "POST", "/inventory/instanceditem", json=body, token=self.ann.player.token
        )

    @proves("POST /inventory/instanceditem")
    def test_a_newer_version_is_stored_and_returned(self) -> None:
        self.ann.transact(addInstancedItems=[sword(1)])
        page = self.update(**sword(2, '{"b":2}'))
        self.assertEqual((page.status, page.json), (200, sword(2, '{"b":2}')))
        self.assertEqual(self.ann.instances(), {"i-1": page.json})

    @proves("POST /inventory/instanceditem")
    def test_an_invalid_item_update_is_refused_and_changes_nothing(self) -> None:
        self.ann.transact(addInstancedItems=[sword(1), sword(0, None, "plain")])
        self.assertEqual(self.update(**sword(1)).status, 409)
        self.assertEqual(self.update(**sword(2, name="i-2")).status, 404)
        self.assertEqual(self.update(**{**sword(2), "catalogId": "OTHER"}).status, 404)
        self.assertEqual(self.update(**sword(2, None)).status, 400)
        self.assertEqual(self.update(**sword("x")).status, 400)
        for character in (self.bob.character, "nope", None):
            page = self.update(**sword(2), characterId=character)
            self.assertEqual((page.status, page.body), (403, b""))
        page = self.update(**sword(0, None, "plain"))
        self.assertEqual((page.status, page.json), (200, sword(0, None, "plain")))
        self.assertEqual(self.ann.instances()["i-1"], sword(1))

    def test_an_item_without_data_is_returned_with_all_its_fields(self) -> None:
        held = {"catalogId": "LT_BASIC", "instanceId": "i-1"}
        # the item has no version, so any version is newer
        self.ann.transact(addInstancedItems=[held | {"itemData": "{}"}])
        page = self.update(**held)
        self.assertEqual(page.json, held | {"itemData": None, "updateVersion": 0})
        self.assertEqual(self.ann.instances(), {"i-1": page.json})

    @proves("POST /inventory/instanceditem")
    def test_a_game_server_names_the_account(self) -> None:
        self.ann.transact(addInstancedItems=[sword(1)])
        body = {"characterId": self.ann.character, "accountId": self.ann.player.id, **sword(2)}
        self.assertEqual(
            self.ann.by_server("POST", "/inventory/instanceditem", body).json, sword(2)
        )


class OnBehalfTests(Case):
    def write(self, named: Any, owner: Owner, **sent: Any) -> Any:
        body = {
            "characterId": owner.character,
            "addStackedItems": [{"catalogId": "A", "quantity": 1}],
            "source": "Hunt",
        }
        return owner.by_server("POST", "/inventory", {**body, "accountId": named}, **sent)

    @proves("POST /inventory")
    def test_a_write_requires_a_character_of_the_named_account(self) -> None:
        self.assertEqual(self.write(self.ann.player.id, self.ann).status, 200)
        self.assertEqual(self.write(self.bob.player.id, self.ann).status, 403)
        self.assertEqual(self.log_lines(), [("gameserver", "Hunt", None)])

    def test_without_a_name_the_write_is_for_the_forwarded_player(self) -> None:
        token = self.ann.player.token
        self.assertEqual(self.write(None, self.ann, token=token).status, 200)
        self.assertEqual(self.write(None, self.ann).status, 403)

    @proves("a game server that names one account and forwards another")
    def test_a_mismatch_is_kept_for_the_named_and_logged_once_a_minute(self) -> None:
        token = self.bob.player.token
        with capturedLogs() as events:
            for wait in (0, 1, 58, 2):
                self.game.clock.advance(wait)
                self.assertEqual(self.write(self.ann.player.id, self.ann, token=token).status, 200)
        lines = [event for event in events if event.get("forwarded") == self.bob.player.id]
        self.assertEqual((len(lines), lines[0]["named"]), (2, self.ann.player.id))
        self.assertEqual((self.ann.stacks(), self.bob.stacks()), ({"A": 4}, {}))

    @proves("POST /inventory")
    def test_a_player_cannot_name_another_account(self) -> None:
        body = {
            "characterId": self.bob.character,
            "accountId": self.bob.player.id,
            "addStackedItems": [{"catalogId": "A", "quantity": 1}],
        }
        for sent in ({**body}, {**body, "characterId": None}, {**body, "characterId": "\x00"}):
            page = self.game.browse("POST", "/inventory", json=sent, token=self.ann.player.token)
            self.assertEqual((page.status, page.body), (403, b""))
        page = self.game.browse(
            "POST", "/inventory", json=body, token=self.ann.player.token, headers={"Via": "x"}
        )
        self.assertEqual(page.status, 403)
        self.assertEqual(self.bob.stacks(), {})

    @proves("thing: Inventory transaction")
    def test_the_item_log_has_caller_and_source(self) -> None:
        self.game.described.odd = True
        self.ann.add("A", 1, source="Crafting", transactionId="t-1")
        self.ann.add("A", 1, source=7)
        self.assertEqual(self.log_lines(), [("client", "Crafting", "t-1"), ("client", "", None)])

    def test_a_game_servers_wrong_key_is_401(self) -> None:
        page = self.game.browse("POST", "/inventory", json={}, game_server=GAME_SERVER_KEY + "x")
        self.assertEqual(page.status, 401)
        count = select(func.count()).select_from(ITEM_LOG)
        self.assertEqual(self.game.ledger.run(lambda tx: tx.execute(count).scalar_one()), 0)
