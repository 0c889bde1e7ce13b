"""The routes of characters. Spec: 1 §2 Character, §4 Characters."""

import json
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.metagame.belongings import documents
from svcserver.metagame.belongings.characters.rules import Head, check_save
from svcserver.metagame.belongings.characters.wire import CharacterSave, short_date
from tests.support.browser import Page
from tests.support.effort import tried
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves

read_save = reader(CharacterSave)


class ShortDateTests(SynchronousTestCase):
    def test_a_short_date_is_the_utc_day(self) -> None:
        noon = datetime(2026, 9, 5, 23, 59, 59, tzinfo=UTC).timestamp()
        self.assertEqual((short_date(noon), short_date(noon + 1)), ("Sep 5, 2026", "Sep 6, 2026"))

    def test_every_month_has_its_three_letters(self) -> None:
        shown = [
            short_date(datetime(2026, month, 9, tzinfo=UTC).timestamp()) for month in range(1, 13)
        ]
        names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        self.assertEqual(shown, [f"{name} 9, 2026" for name in names])


class CharacterTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.ann, self.bob = self.game.player("Ann_1"), self.game.player("Bob_1")
        self.character = self.read()[0]

    def read(self, token: str | None = None) -> list[dict[str, Any]]:
        page = self.game.browse("GET", "/character", token=token or self.ann.token)
        self.assertEqual(page.status, 200)
        return page.json

    def save(self, version: Any, data: Any = '{"a":"1"}', **more: Any) -> Page:
        body = {"characterId": self.character["id"], "data": data, "updateVersion": version} | more
        return self.game.browse("POST", "/character", json=body, token=self.ann.token)

    def history(self) -> list[tuple[int, str]]:
        rows = self.game.ledger.run(
            lambda tx: tx.exec_driver_sql(
                "select version, reason from character_saves order by id"
            ).all()
        )
        return [tuple(row) for row in rows]

    @proves("GET /character")
    def test_the_first_read_creates_a_character_named_after_the_user(self) -> None:
        self.assertEqual(
            self.character,
            {
                "accountId": self.ann.id,
                "createdDate": "Sep 21, 2026",
                "data": "{}",
                "id": self.character["id"],
                "lastModifiedDate": "Sep 21, 2026",
                "name": "Ann_1",
                "updateVersion": 0,
            },
        )
        self.assertEqual(self.read(), [self.character])

    @proves("thing: Character: every save is kept", "POST /character")
    def test_a_save_comes_back_byte_for_byte(self) -> None:
        data = '{ "b":"\\u00e9 \\ud83d\\ude00", "a" : "{\\"nested\\":[1,2]}" }'
        self.game.clock.advance(86_000)
        page = self.save(5, data)
        self.assertEqual(
            (page.status, page.json["data"], page.json["updateVersion"]), (200, data, 5)
        )
        self.assertEqual(page.json["lastModifiedDate"], "Sep 22, 2026")
        self.assertEqual(self.read(), [page.json])

    def test_a_save_may_nest_deeper_than_json_of_our_own(self) -> None:
        data = '{"a":' * 900 + "1" + "}" * 900
        self.assertEqual(self.save(5, data).json["data"], data)

    @proves("thing: Character: every save is kept", "POST /character")
    def test_every_save_is_kept_from_the_baseline_on(self) -> None:
        self.save(1), self.save(9)
        self.assertEqual(self.history(), [(0, "baseline"), (1, "save:client"), (9, "save:client")])

    @proves("POST /character")
    def test_an_equal_or_older_version_conflicts_even_with_equal_data(self) -> None:
        self.save(5)
        for version in (5, 4, 0):
            page = self.save(version)
            self.assertEqual((page.status, page.body), (409, b""))
        self.assertEqual(len(self.history()), 2)

    def test_a_digit_text_is_a_version_and_nothing_else_is(self) -> None:
        self.assertEqual(self.save("7").json["updateVersion"], 7)
        for version in (
            -1,
            1.5,
            None,
            True,
            "x",
            "",
            "-1",
            "1.0",
            2**53,
            10**30,
            "9" * 5000,
            [],
            {},
        ):
            self.assertEqual(self.save(version).status, 400, version)

    @proves("POST /character")
    def test_bad_data_is_400_and_changes_nothing(self) -> None:
        for data in (None, 7, {}, "", " ", "[]", "7", "{", '{"a":NaN}', "[" * 100_000, "null"):
            page = self.save(1, data)
            self.assertEqual((page.status, page.body), (400, b""), data)
        self.assertEqual(self.read(), [self.character])

    @proves("POST /character")
    def test_another_players_character_is_404_before_its_version(self) -> None:
        bobs = self.read(self.bob.token)[0]["id"]
        for character_id in (bobs, "nope", 7, None, "\x00"):
            page = self.save(1, characterId=character_id)
            self.assertEqual((page.status, page.body), (404, b""))

    @proves("POST /character")
    def test_the_order_of_checks_is_version_owner_conflict_data(self) -> None:
        self.save(5)
        self.assertEqual(self.save("x", "bad", characterId="nope").status, 400)
        self.assertEqual(self.save(5, "bad", characterId="nope").status, 404)
        self.assertEqual(self.save(5, "bad").status, 409)

    def test_a_game_server_saves_for_the_forwarded_player(self) -> None:
        body = {"characterId": self.character["id"], "data": "{}", "updateVersion": 1}
        page = self.game.browse(
            "POST", "/character", json=body, token=self.ann.token, game_server=GAME_SERVER_KEY
        )
        self.assertEqual(page.status, 200)
        self.assertEqual(self.history()[-1], (1, "save:gameserver"))

    def test_credentials_are_checked_before_the_body(self) -> None:
        for method in ("GET", "PUT", "POST"):
            self.assertEqual(self.game.browse(method, "/character", data=b"{").status, 401)
            page = self.game.browse(method, "/character", data=b"{}", game_server=GAME_SERVER_KEY)
            self.assertEqual((page.status, page.body), (403, b""))

    @proves("PUT /character")
    def test_an_account_creates_up_to_twenty_characters(self) -> None:
        page = self.game.browse("PUT", "/character", json={"name": "Second"}, token=self.ann.token)
        self.assertEqual(
            (page.status, page.json["name"], page.json["updateVersion"]), (200, "Second", 0)
        )
        for _ in range(18):
            self.game.browse("PUT", "/character", json={"name": "More"}, token=self.ann.token)
        self.assertEqual(len(self.read()), 20)
        page = self.game.browse("PUT", "/character", json={"name": "More"}, token=self.ann.token)
        self.assertEqual((page.status, page.body), (409, b""))

    @proves("PUT /character")
    def test_create_refuses_bad_names(self) -> None:
        for body in ({}, {"name": 7}, {"name": ""}, {"name": "x" * 65}, {"name": "a\x00b"}, []):
            page = self.game.browse("PUT", "/character", json=body, token=self.ann.token)
            self.assertEqual((page.status, page.body), (400, b""))


class RulesTests(SynchronousTestCase):
    @tried(60)
    @given(st.lists(st.integers(0, 12)))
    def test_accepted_versions_only_rise(self, versions: list[int]) -> None:
        head, accepted = Head("c", "UID-a", "Ann", 0, 0.0, 0.0), [0]
        for version in versions:
            try:
                head = check_save(head, "UID-a", version).saved(documents.EMPTY, version, 1.0)
            except Conflict:
                self.assertLessEqual(version, accepted[-1])
            else:
                accepted.append(version)
        self.assertEqual(accepted, sorted(set(accepted)))

    @tried(100)
    @given(st.recursive(st.none() | st.booleans() | st.text() | st.integers(), st.lists))
    def test_data_that_is_not_the_text_of_an_object_is_refused(self, value: Any) -> None:
        with self.assertRaises(Malformed):
            read_save({"updateVersion": 1, "data": value}).data.parse_value()
            documents.document(value)
        with self.assertRaises(Malformed):
            documents.document(json.dumps(value))
