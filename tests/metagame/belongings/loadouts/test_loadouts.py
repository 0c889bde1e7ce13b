from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import datafiles
from svcserver.kernel.datafiles import BadData
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.belongings.documents import shallow_object
from svcserver.metagame.belongings.loadouts import acts, rules
from tests.support.belongings import Owner
from tests.support.effort import tried
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, **environ: str) -> None:
        self.game = Game(self, **environ)
        self.ann, self.bob = Owner.of(self.game, "Ann_1"), Owner.of(self.game, "Bob_1")

    def path(self, tail: str, owner: Owner | None = None) -> str:
        owner = owner or self.ann
        return f"/loadout/{owner.player.id}/{owner.character}/{tail}"

    def read(self, **sent: Any) -> dict[str, Any]:
        page = self.game.browse("GET", self.path("all"), token=self.ann.player.token)
        self.assertEqual((page.status, page.json["code"], page.json["message"]), (200, None, "OK"))
        payload: dict[str, Any] = page.json["payload"]
        return payload

    def save(self, index: Any, data: Any, **sent: Any) -> Any:
        body = sent.pop("body", {"data": data})
        token = sent.pop("token", self.ann.player.token)
        return self.game.browse("POST", self.path(str(index)), json=body, token=token, **sent)

    def server(self, tail: str, method: str = "POST", **sent: Any) -> Any:
        return self.ann.by_server(method, self.path(tail), **sent)


class ReadTests(Case):
    @proves("thing: Loadout", "GET /loadout/:userId/:characterId/all")
    def test_a_fresh_character_has_the_default_slot_and_persistent_part(self) -> None:
        payload = self.read()
        [slot] = payload["loadouts"]
        self.assertEqual((slot["slot_index"], slot["update_version"]), (0, 0))
        self.assertEqual(slot["weapon"]["item_id"], "WP_EB_TRAINING")
        self.assertEqual(orjson.loads(slot["weapon"]["instance_data"])["SheenType"], 73)
        self.assertEqual(slot["persistent"], payload["persistent"])
        self.assertEqual(
            [len(payload["persistent"][key]) for key in ("manual_emotes", "quick_chats")], [6, 9]
        )
        numbers = {key: value for key, value in payload.items() if isinstance(value, int)}
        self.assertEqual(
            numbers,
            {
                "num_account_slots": 1,
                "max_account_slots": 1,
                "num_character_slots": 1,
                "max_character_slots": 5,
                "active_index": 0,
                "needs_migration": False,
            },
        )

    @proves("GET /loadout/:userId/:characterId/all")
    def test_another_accounts_or_an_unknown_character_is_404(self) -> None:
        for character in (self.bob.character, "nope", "%00"):
            for method, tail, sent in (("GET", "all", {}), ("POST", "0", {"json": {"data": "{}"}})):
                path = f"/loadout/{self.ann.player.id}/{character}/{tail}"
                page = self.game.browse(method, path, token=self.ann.player.token, **sent)
                self.assertEqual((page.status, page.body), (404, b""))

    @proves("GET /loadout/:userId/:characterId/all")
    def test_a_player_reads_its_own_loadouts_for_any_account_in_the_url(self) -> None:
        path = f"/loadout/{self.bob.player.id}/{self.ann.character}/all"
        self.assertEqual(self.game.browse("GET", path, token=self.ann.player.token).status, 200)
        self.assertEqual(self.ann.by_server("GET", path).status, 404)
        self.assertEqual(self.server("all", "GET").status, 200)

    def test_loadout_routes_without_a_token_are_401(self) -> None:
        for method, tail in (
            ("GET", "all"),
            ("POST", "0"),
            ("POST", "unlock/1"),
            ("GET", "slotcount"),
            ("POST", "active/0"),
        ):
            self.assertEqual(self.game.browse(method, self.path(tail)).status, 401)


class SaveTests(Case):
    @proves("POST /loadout/:userId/:characterId/:index")
    def test_a_slot_comes_back_as_sent_and_others_stay(self) -> None:
        slot = {"weapon": None, "slot_index": 1, "custom_name": "é", "x": [1.0, 1]}
        before = self.read()
        page = self.save(1, orjson.dumps(slot).decode())
        self.assertEqual(page.json["payload"], self.read())
        self.assertEqual(self.read()["loadouts"], [before["loadouts"][0], slot])
        self.assertEqual(self.read()["persistent"], before["persistent"])

    @proves("thing: Loadout")
    def test_the_bytes_of_a_document_are_not_touched(self) -> None:
        text = '{"slot_index": 0,\t"n": 1e2, "big": 123456789012345678901234567890}'
        self.save(0, text)
        page = self.game.browse("GET", self.path("all"), token=self.ann.player.token)
        self.assertIn(text.encode(), page.body)

    def test_the_slot_index_of_the_url_replaces_that_of_the_document(self) -> None:
        for text in ('{"slot_index":5,"a":1}', '{"a":1}', '{"slot_index":"1","a":1}'):
            self.save(1, text)
            self.assertEqual(self.read()["loadouts"][1], {"slot_index": 1, "a": 1})

    def test_persistent_is_stored_as_sent(self) -> None:
        slots = self.read()["loadouts"]
        self.assertEqual(self.save("persistent", '{"pet":"P","update_version":7}').status, 200)
        self.assertEqual(self.read()["persistent"], {"pet": "P", "update_version": 7})
        self.assertEqual(self.read()["loadouts"], slots)

    @proves("POST /loadout/:userId/:characterId/:index")
    def test_locked_slots_and_odd_indexes_are_400(self) -> None:
        for index in ("2", "5", "6", "-1", "x", "1.0", "99999999999", "PERSISTENT", "%C2%B2"):
            page = self.save(index, "{}")
            self.assertEqual((page.status, page.body), (400, b""), index)

    @proves("POST /loadout/:userId/:characterId/:index")
    def test_bad_data_is_400_and_changes_nothing(self) -> None:
        before = self.read()
        for data in (None, 7, {}, [], "", " ", "[]", "7", "null", "{", '{"a":NaN}', "[" * 100_000):
            for index in (0, "persistent"):
                page = self.save(index, data)
                self.assertEqual((page.status, page.body), (400, b""), data)
        for body in ([], {}, {"Data": "{}"}):
            self.assertEqual(self.save(0, None, body=body).status, 400)
        self.assertEqual(self.read(), before)

    @proves("a game server that names one account and forwards another")
    def test_a_game_server_saves_for_the_urls_account(self) -> None:
        with capturedLogs() as events:
            for _ in range(2):
                page = self.save(
                    0,
                    '{"slot_index":0,"by":"server"}',
                    token=self.bob.player.token,
                    game_server=GAME_SERVER_KEY,
                )
                self.assertEqual(page.status, 200)
        self.assertEqual(self.read()["loadouts"][0]["by"], "server")
        self.assertEqual(len([event for event in events if "forwarded" in event]), 1)


class SlotTests(Case):
    def counts(self) -> dict[str, Any]:
        page = self.game.browse("GET", self.path("slotcount"), token=self.ann.player.token)
        self.assertEqual((page.status, page.json["message"]), (200, "OK"))
        payload: dict[str, Any] = page.json["payload"]
        return payload

    @proves(
        "GET /loadout/:userId/:characterId/slotcount",
        "POST /loadout/:userId/:characterId/unlock/:numSlots",
        "limit: Loadout slots",
    )
    def test_unlocking_adds_up_to_five_character_slots(self) -> None:
        for more, total in (("1", 2), ("2", 4), ("9", 5), ("1", 5)):
            page = self.server(f"unlock/{more}")
            self.assertEqual((page.status, page.json["payload"]), (200, self.counts()))
            self.assertEqual(
                self.counts(),
                {
                    "num_account_slots": 1,
                    "max_account_slots": 1,
                    "num_character_slots": total,
                    "max_character_slots": 5,
                },
            )
        self.assertEqual(self.save(5, "{}").status, 200)
        self.assertEqual(self.save(6, "{}").status, 400)

    @proves("POST /loadout/:userId/:characterId/unlock/:numSlots")
    def test_odd_numbers_of_slots_are_400(self) -> None:
        for more in ("0", "-1", "x", "1.5", "12345678901", "000"):
            page = self.server(f"unlock/{more}")
            self.assertEqual((page.status, page.body), (400, b""), more)
        self.assertEqual(self.counts()["num_character_slots"], 1)

    @proves("POST /loadout/:userId/:characterId/active/:index")
    def test_the_active_slot_shows_in_the_reply(self) -> None:
        page = self.server("active/1")
        self.assertEqual((page.status, page.json), (200, {"code": None, "message": "OK"}))
        self.assertEqual(self.read()["active_index"], 1)
        for index in ("2", "x", "persistent", "-1"):
            self.assertEqual(self.server(f"active/{index}").status, 400)
        self.assertEqual(self.read()["active_index"], 1)

    @proves(
        "POST /loadout/:userId/:characterId/active/:index",
        "POST /loadout/:userId/:characterId/unlock/:numSlots",
    )
    def test_only_a_game_server_unlocks_and_activates(self) -> None:
        for tail in ("unlock/1", "active/0"):
            page = self.game.browse("POST", self.path(tail), token=self.ann.player.token)
            self.assertEqual((page.status, page.body), (403, b""))
        path = f"/loadout/{self.ann.player.id}/{self.bob.character}/unlock/1"
        self.assertEqual(self.ann.by_server("POST", path).status, 404)


class StubTests(Case):
    def setUp(self) -> None:
        self.start(PROGRESSION_MODE="stub")

    @proves("POST /loadout/:userId/:characterId/:index")
    def test_counts_are_fixed_and_only_slot_0_and_persistent_are_saved(self) -> None:
        payload = self.read()
        self.assertEqual(
            [payload[k] for k in ("num_character_slots", "max_character_slots")], [1, 1]
        )
        self.assertEqual(self.save(0, '{"a":1}').status, 200)
        self.assertEqual(self.save("persistent", '{"a":1}').status, 200)
        self.assertEqual(self.save(1, "{}").status, 400)
        self.assertEqual(self.read()["loadouts"], [{"a": 1, "slot_index": 0}])

    @proves(
        "GET /loadout/:userId/:characterId/slotcount",
        "POST /loadout/:userId/:characterId/unlock/:numSlots",
    )
    def test_the_real_only_routes_are_404_before_any_credential(self) -> None:
        for method, tail in (("POST", "unlock/1"), ("GET", "slotcount"), ("POST", "active/0")):
            page = self.game.browse(method, self.path(tail))
            self.assertEqual((page.status, page.body), (404, b""))

    def test_listed_accounts_keep_real_progression(self) -> None:
        self.start(PROGRESSION_MODE="stub", PROGRESSION_REAL_ACCOUNTS="UID-other")
        self.assertEqual(self.server("unlock/1").status, 404)


class RulesTests(SynchronousTestCase):
    @tried(100)
    @given(st.text(max_size=12), st.integers(1, 6))
    def test_an_index_is_an_unlocked_slot_or_refused(self, index: str, slots: int) -> None:
        try:
            name = rules.element(index, slots)
        except Malformed:
            return
        self.assertTrue(name == rules.PERSISTENT or 0 <= int(name) < slots)

    @tried(100)
    @given(st.text() | st.none() | st.booleans() | st.floats() | st.lists(st.text()))
    def test_only_the_text_of_an_object_is_data(self, data: Any) -> None:
        with self.assertRaises(Malformed):
            shallow_object(orjson.dumps(data).decode())

    def test_a_bad_defaults_file_is_refused_with_its_name(self) -> None:
        good = datafiles.read_json(acts.PACKAGE, acts.FILE)
        for change in ({"slot": None}, {"persistent": []}, {"slot": {}}, {"persistent": {}}):
            self.patch(datafiles, "read_json", lambda *_, change=change: {**good, **change})
            with self.assertRaises(BadData) as caught:
                acts.load()
            self.assertIn("defaults.json", str(caught.exception))
