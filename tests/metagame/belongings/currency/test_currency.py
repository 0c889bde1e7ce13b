from typing import Any
from unittest.mock import patch

from sqlalchemy import update
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import datafiles
from svcserver.kernel.datafiles import BadData
from svcserver.metagame.accounts.store import ACCOUNTS
from svcserver.metagame.belongings.currency import feature
from tests.support.belongings import Owner
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves


class CurrencyTests(SynchronousTestCase):
    def start(self, **environ: str) -> None:
        self.game = Game(self, **environ)
        self.ann = Owner.of(self.game, "Ann_1")

    def setUp(self) -> None:
        self.start()

    def balance(self) -> dict[str, Any]:
        page = self.game.browse("GET", "/balance", token=self.ann.player.token)
        self.assertEqual(page.status, 200)
        balances: dict[str, Any] = page.json
        return balances

    def reconcile(self, **sent: Any) -> Any:
        return self.game.browse("POST", "/reconcile", token=self.ann.player.token, **sent)

    def set_notes(self, notes: int) -> None:
        change = update(ACCOUNTS).where(ACCOUNTS.c.id == self.ann.player.id).values(notes=notes)
        self.game.ledger.run(lambda tx: tx.execute(change))

    @proves("thing: Currency table")
    def test_the_plain_list_has_52_keys_in_their_order(self) -> None:
        balances = self.balance()
        keys = list(balances)
        self.assertEqual(len(keys), 52)
        self.assertEqual(
            keys[:3],
            ["id_currency_s20_coin", "CURRENCY_GAUNTLET_COIN_FADED", "CURRENCY_S20_COIN"],
        )
        self.assertEqual(
            keys[-3:],
            ["id_currency_s14_coin", "CURRENCY_EVENT_RAMSGIVING", "id_currency_s17_coin"],
        )
        worth = {key: value for key, value in balances.items() if value}
        self.assertEqual(worth, {"CURRENCY_WEAPON_TOKEN": 25, "id_currency_weapon_token": 25})

    @proves("thing: Currency table")
    def test_a_held_stack_changes_only_its_two_currency_keys(self) -> None:
        self.set_notes(7)
        before = self.balance()
        self.ann.add("CURRENCY_MARKS_STEEL", 3), self.ann.add("CURRENCY_WEAPON_TOKEN", 2)
        self.ann.add("CURRENCY_PLATINUM_UNIV", 9), self.ann.add("currency_prestige", 9)
        balances = self.balance()
        self.assertEqual(list(balances), list(before))
        changed = {key: value for key, value in balances.items() if value != before[key]}
        self.assertEqual(
            changed,
            {
                "CURRENCY_MARKS_STEEL": 3,
                "id_currency_marks_steel": 3,
                "CURRENCY_WEAPON_TOKEN": 2,
                "id_currency_weapon_token": 2,
            },
        )

    @proves("GET /balance")
    def test_notes_fall_back_to_the_column_when_the_stack_is_spent(self) -> None:
        self.set_notes(7)
        self.assertEqual(self.balance()["id_currency_notes"], 7)
        self.ann.add("CURRENCY_NOTES", 500)
        self.assertEqual(self.balance()["CURRENCY_NOTES"], 500)
        self.ann.take("CURRENCY_NOTES", 500)
        self.assertEqual(self.balance()["CURRENCY_NOTES"], 7)

    @proves("GET /balance")
    def test_the_most_recently_saved_character_counts(self) -> None:
        token = self.ann.player.token
        self.game.clock.advance(60)
        made = self.game.browse("PUT", "/character", json={"name": "Two"}, token=token).json
        second = Owner(self.game, self.ann.player, made["id"])
        self.ann.add("CURRENCY_NOTES", 1), second.add("CURRENCY_NOTES", 2)

        def save(character: str, version: int) -> None:
            body = {"characterId": character, "data": "{}", "updateVersion": version}
            page = self.game.browse("POST", "/character", json=body, token=token)
            self.assertEqual(page.status, 200)

        # no character has been saved, so the newest one counts
        self.assertEqual(self.balance()["CURRENCY_NOTES"], 2)
        save(self.ann.character, 1)
        self.assertEqual(self.balance()["CURRENCY_NOTES"], 1)
        save(second.character, 1)
        self.assertEqual(self.balance()["CURRENCY_NOTES"], 2)
        self.game.browse("PUT", "/character", json={"name": "Three"}, token=token)
        # a new character has never been saved
        self.assertEqual(self.balance()["CURRENCY_NOTES"], 2)

    @proves("BALANCE_FROM_INVENTORY")
    def test_without_the_switch_balances_come_from_the_account(self) -> None:
        self.start(BALANCE_FROM_INVENTORY="0")
        self.ann.add("CURRENCY_NOTES", 500), self.set_notes(7)
        self.assertEqual(self.balance()["CURRENCY_NOTES"], 7)
        self.assertEqual(
            self.reconcile(json={}).json["balances"],
            {"id_currency_notes": 7, "CURRENCY_NOTES": 7},
        )

    @proves("GET /balance")
    def test_an_account_without_a_character_has_the_plain_list(self) -> None:
        bob = self.game.player("Bob_1")
        page = self.game.browse("GET", "/balance", token=bob.token)
        self.assertEqual(page.json, {**self.balance()})

    @proves("POST /reconcile")
    def test_reconcile_returns_two_balances_whatever_the_body(self) -> None:
        self.ann.add("CURRENCY_NOTES", 500)
        for sent in ({}, {"json": {"authorization": "x"}}, {"json": []}):
            page = self.reconcile(**sent)
            self.assertEqual(
                page.body,
                b'{"balances":{"id_currency_notes":500,"CURRENCY_NOTES":500},'
                b'"refreshInventory":true}',
            )

    @proves("POST /reconcile")
    def test_currency_routes_require_the_players_token(self) -> None:
        for method, path in (("GET", "/balance"), ("POST", "/reconcile")):
            self.assertEqual(self.game.browse(method, path).status, 401)
            page = self.game.browse(method, path, game_server=GAME_SERVER_KEY)
            self.assertEqual((page.status, page.body), (403, b""))
            page = self.game.browse(
                method, path, game_server=GAME_SERVER_KEY, token=self.ann.player.token
            )
            self.assertEqual(page.status, 200)

    @proves("GET /creator")
    def test_creator_is_a_fixed_reply(self) -> None:
        page = self.game.browse("GET", "/creator", token=self.ann.player.token)
        self.assertEqual((page.status, page.json["success"]), (200, True))


class DataTests(SynchronousTestCase):
    @proves("thing: Currency table")
    def test_a_bad_file_is_refused_with_its_name(self) -> None:
        good = datafiles.read_json(feature.PACKAGE, feature.FILE)
        for change in (
            {"keys": None},
            {"keys": good["keys"][1:]},
            {"keys": [*good["keys"][1:], "CURRENCY_NEW"]},
            {"keys": good["keys"][:-1] + good["keys"][:1]},
            {"notes": "NONE"},
            {"notes": None},
            {"without_stack": {"X": 1}},
            {"without_stack": {"NOTES": -1}},
            {"without_stack": {"NOTES": "1"}},
        ):
            with patch.object(datafiles, "read_json", return_value={**good, **change}):
                with self.assertRaises(BadData) as caught:
                    feature.load()
                self.assertIn("currencies.json", str(caught.exception))

    def test_plain_values_may_be_0_and_missing_currencies_are_bad_data(self) -> None:
        good = datafiles.read_json(feature.PACKAGE, feature.FILE)
        names = [key.removeprefix("CURRENCY_") for key in good["keys"] if key.isupper()]
        change = {"without_stack": dict.fromkeys(names, 0)}
        with patch.object(datafiles, "read_json", return_value={**good, **change}):
            self.assertEqual(set(feature.load().plain.values()), {0})
        change = {"keys": []}
        with patch.object(datafiles, "read_json", return_value={**good, **change}):
            caught = self.assertRaises(BadData, feature.load)
        self.assertIn("for each of the 26 currencies", str(caught))

    def test_a_file_that_cannot_be_read_is_named(self) -> None:
        with self.assertRaises(BadData) as caught:
            datafiles.read_json(feature.PACKAGE, "nothing.json")
        self.assertIn("nothing.json", str(caught.exception))
