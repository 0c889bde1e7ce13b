from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, func, select
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.digits import MAX_VERSION, MAX_WHOLE
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.belongings.documents import Document
from svcserver.metagame.belongings.loadouts.store import LOADOUT_ELEMENTS
from svcserver.metagame.belongings.savehistory.rules import (
    DAY_MS,
    HOUR_MS,
    Retention,
    Save,
    thinned,
)
from tests.support.belongings import Owner
from tests.support.effort import tried
from tests.support.game import Game
from tests.support.proves import proves


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, **environ: str) -> None:
        self.game = Game(self, **environ)
        self.ann = Owner.of(self.game, "Ann_1")
        self.admin = self.game.player("Owner_1", admin=True)

    def save(self, version: int, data: str = "{}") -> int:
        body = {"characterId": self.ann.character, "data": data, "updateVersion": version}
        page = self.game.browse("POST", "/character", json=body, token=self.ann.player.token)
        return page.status

    def save_slot(self, index: Any, data: str) -> None:
        path = f"/loadout/{self.ann.player.id}/{self.ann.character}/{index}"
        page = self.game.browse("POST", path, json={"data": data}, token=self.ann.player.token)
        self.assertEqual(page.status, 200)

    def slots(self) -> dict[str, Any]:
        path = f"/loadout/{self.ann.player.id}/{self.ann.character}/all"
        payload = self.game.browse("GET", path, token=self.ann.player.token).json["payload"]
        held: dict[str, Any] = payload
        return held

    def history(self, query: str | None = None) -> Any:
        query = query or f"CharacterId={self.ann.character}"
        page = self.game.browse("GET", f"/svc/api/SaveHistory?{query}", key=self.admin.key)
        self.assertEqual(page.status, 200)
        return page.json

    def versions(self, name: str = "CharacterVersions") -> list[tuple[int, str]]:
        [only] = self.history()["Characters"]
        return [(version["Version"], version["Reason"]) for version in only[name]]

    def post(self, route: str, **sent: Any) -> Any:
        body = {"CharacterId": self.ann.character, **sent}
        return self.game.browse("POST", f"/svc/api/{route}", json=body, key=self.admin.key)


class ReadTests(Case):
    @proves("POST /loadout/:userId/:characterId/:index", "GET /svc/api/SaveHistory")
    def test_saves_are_listed_newest_first_without_their_data(self) -> None:
        self.save(3, '{"a":"1"}')
        self.save_slot(0, "{}")
        [only] = self.history(f"UserId={self.ann.player.id}")["Characters"]
        self.assertEqual(
            only,
            {
                "CharacterId": self.ann.character,
                "UserId": self.ann.player.id,
                "Name": "Ann_1",
                "UpdateVersion": 3,
                "CharacterVersions": [
                    {
                        "Version": 3,
                        "SavedDate": "2026-09-21T14:13:20.000Z",
                        "Reason": "save:client",
                        "Size": 9,
                    },
                    {
                        "Version": 0,
                        "SavedDate": "2026-09-21T14:13:20.000Z",
                        "Reason": "baseline",
                        "Size": 2,
                    },
                ],
                "LoadoutVersions": [
                    {
                        "Version": 2,
                        "SavedDate": "2026-09-21T14:13:20.000Z",
                        "Reason": "save:client",
                    },
                    {"Version": 1, "SavedDate": "2026-09-21T14:13:20.000Z", "Reason": "baseline"},
                ],
            },
        )

    def test_a_character_in_the_query_takes_precedence_over_an_account(self) -> None:
        history = self.history(f"UserId=UID-nobody&CharacterId={self.ann.character}")
        self.assertEqual(len(history["Characters"]), 1)

    @proves("GET /svc/api/SaveHistory")
    def test_refusals_have_no_body(self) -> None:
        for query, status in (
            ("", 400),
            ("?UserId=", 400),
            ("?UserId=UID-nobody", 404),
            ("?CharacterId=nope", 404),
            (f"?UserId={self.ann.player.id}&CharacterId=nope", 404),
            ("?CharacterId=%00", 404),
        ):
            page = self.game.browse("GET", f"/svc/api/SaveHistory{query}", key=self.admin.key)
            self.assertEqual((page.status, page.body), (status, b""), query)

    @proves("GET /svc/api/SaveHistory")
    def test_only_an_admin_reads_and_rolls_back(self) -> None:
        for method, route in (
            ("GET", "SaveHistory?UserId=x"),
            ("POST", "RollbackCharacter"),
            ("POST", "RollbackLoadout"),
        ):
            path = f"/svc/api/{route}"
            self.assertEqual(self.game.browse(method, path).status, 401)
            self.assertEqual(self.game.browse(method, path, key=self.ann.player.key).status, 403)
            page = self.game.browse(method, path, key=self.admin.key, headers={"Via": "x"})
            self.assertEqual((page.status, page.body), (403, b""))


class RollbackTests(Case):
    @proves("POST /svc/api/RollbackCharacter")
    def test_an_old_version_becomes_the_newest(self) -> None:
        self.save(3, '{"a":"old"}'), self.save(7, '{"a":"new"}')
        page = self.post("RollbackCharacter", Version=3)
        self.assertEqual(
            page.json,
            {
                "CharacterId": self.ann.character,
                "RolledBackTo": 3,
                "PreviousVersion": 7,
                "UpdateVersion": 8,
            },
        )
        token = self.ann.player.token
        [held] = self.game.browse("GET", "/character", token=token).json
        self.assertEqual((held["data"], held["updateVersion"]), ('{"a":"old"}', 8))
        self.assertEqual(self.save(8), 409)  # a save in flight
        self.assertEqual(self.save(9), 200)
        self.assertEqual(self.versions()[1], (8, "rollback:3"))

    @proves("POST /svc/api/RollbackCharacter")
    def test_version_0_can_be_restored(self) -> None:
        self.save(1, '{"a":"1"}')
        self.assertEqual(self.post("RollbackCharacter", Version=0).json["UpdateVersion"], 2)
        [held] = self.game.browse("GET", "/character", token=self.ann.player.token).json
        self.assertEqual(held["data"], "{}")

    @proves("POST /character", "POST /svc/api/RollbackCharacter")
    def test_a_version_without_room_above_it_is_409(self) -> None:
        for version in (MAX_VERSION + 1, MAX_WHOLE):
            self.assertEqual(self.save(version), 409)
        self.save(MAX_VERSION - 2)
        self.assertEqual(
            self.post("RollbackCharacter", Version=0).json["UpdateVersion"], MAX_VERSION - 1
        )
        self.assertEqual(self.save(MAX_VERSION), 200)

    @proves("POST /character", "POST /svc/api/RollbackCharacter")
    def test_a_rollback_makes_any_stored_version_savable(self) -> None:
        for stored in (MAX_VERSION - 1, MAX_VERSION, MAX_VERSION + 1, MAX_WHOLE):
            self.start()
            self.save(6)
            self.store(stored, '{"a":"high"}')
            page = self.post("RollbackCharacter", Version=6)
            self.assertEqual((page.status, page.json["UpdateVersion"]), (200, 7))
            for late in (stored, stored + 1):
                self.assertEqual(self.save(late) == 200, late <= MAX_VERSION)
            self.store(stored, '{"a":"high"}')
            page = self.post("RollbackCharacter", Version=stored)
            self.assertEqual((page.status, page.json["UpdateVersion"]), (200, 8))
            self.assertEqual(self.save(9), 200)

    @proves("POST /character")
    def test_a_stored_version_without_room_takes_a_lower_save(self) -> None:
        for stored in (MAX_VERSION, MAX_WHOLE):
            self.start()
            self.store(stored, '{"a":"high"}')
            self.assertEqual(self.save(MAX_VERSION + 1), 409)
            self.assertEqual(self.save(7), 200)
            self.assertEqual(self.save(7), 409)

    def store(self, version: int, data: str) -> None:
        """Store a save like an earlier release, which accepted any version."""
        body = Document(json.dump(data), len(data))

        def work(tx: Connection) -> None:
            characters = SqlCharacters(tx)
            head = characters.find(self.ann.character)
            assert head is not None
            characters.save(head.saved(body, version, 0.0), "save:client")

        self.game.ledger.run(work)

    @proves("POST /svc/api/RollbackLoadout")
    def test_a_loadout_goes_back_whole(self) -> None:
        first = self.slots()
        self.save_slot(0, '{"slot_index":0,"n":1}'), self.save_slot("persistent", '{"p":1}')
        second = self.slots()
        page = self.post("RollbackLoadout", Version=1)
        expected = {"CharacterId": self.ann.character, "RolledBackTo": 1, "Version": 4}
        self.assertEqual((page.status, page.json, self.slots()), (200, expected, first))
        self.assertEqual(self.post("RollbackLoadout", Version=3).json["Version"], 5)
        self.assertEqual(self.slots(), second)
        self.assertEqual(self.versions("LoadoutVersions")[0], (5, "rollback:3"))

    @proves("POST /svc/api/RollbackCharacter", "POST /svc/api/RollbackLoadout")
    def test_refusals_have_no_body_and_change_nothing(self) -> None:
        self.save(3), self.save_slot(0, "{}")
        before = self.history()
        for route in ("RollbackCharacter", "RollbackLoadout"):
            for sent, status in (
                ({"Version": 99}, 404),
                ({"Version": 1, "CharacterId": "nope"}, 404),
                ({}, 400),
                ({"Version": "1"}, 400),
                ({"Version": 1.5}, 400),
                ({"Version": -1}, 400),
                ({"Version": True}, 400),
                ({"Version": 10**30}, 400),
                ({"Version": 1, "CharacterId": 7}, 400),
                ({"Version": 1, "CharacterId": ""}, 400),
                ({"Version": 1, "CharacterId": "\x00"}, 400),
            ):
                page = self.post(route, **sent)
                self.assertEqual((page.status, page.body), (status, b""), (route, sent))
            page = self.game.browse("POST", f"/svc/api/{route}", json=[], key=self.admin.key)
            self.assertEqual(page.status, 400)
        self.assertEqual(self.history(), before)


class ThinningTests(Case):
    @proves("SAVE_HISTORY_KEEP, SAVE_HISTORY_HOURLY, SAVE_HISTORY_DAILY")
    def test_every_save_is_kept_without_the_switch(self) -> None:
        for version in range(1, 30):
            self.save(version)
        self.assertEqual(len(self.versions()), 30)

    @proves("SAVE_HISTORY_KEEP, SAVE_HISTORY_HOURLY, SAVE_HISTORY_DAILY")
    def test_thinning_keeps_the_newest_saves_and_the_last_of_an_hour(self) -> None:
        self.start(SAVE_HISTORY_KEEP="2", SAVE_HISTORY_HOURLY="2", SAVE_HISTORY_DAILY="0")
        for version in range(1, 6):
            self.save(version)
        self.game.clock.advance(3600)
        for version in range(6, 10):
            if version == 9:
                self.game.clock.advance(601)  # for this long, requests may be sent again
            self.save(version), self.save_slot(0, f'{{"n":{version}}}')
        self.assertEqual([version for version, _ in self.versions()], [9, 8, 5])
        self.assertEqual(self.versions("LoadoutVersions"), [(5, "save:client"), (4, "save:client")])
        self.assertEqual(self.slots()["loadouts"][0]["n"], 9)
        count = select(func.count()).select_from(LOADOUT_ELEMENTS)
        self.assertEqual(self.game.ledger.run(lambda tx: tx.execute(count).scalar_one()), 3)
        self.assertEqual(self.post("RollbackLoadout", Version=4).status, 200)
        self.assertEqual(self.slots()["loadouts"][0]["n"], 8)

    @proves("SAVE_HISTORY_KEEP, SAVE_HISTORY_HOURLY, SAVE_HISTORY_DAILY")
    @tried(60)
    @given(
        st.lists(st.integers(0, 5 * DAY_MS), max_size=40),
        st.integers(2, 5),
        st.integers(0, 6),
        st.integers(0, 4),
    )
    def test_thinning_spares_the_newest_and_the_last_of_each_period(
        self, times: list[int], keep: int, hourly: int, daily: int
    ) -> None:
        now_ms = 5 * DAY_MS
        saves = [Save(number, at) for number, at in enumerate(sorted(times))]
        gone = set(thinned(saves, Retention(keep, hourly, daily), now_ms / 1000))
        self.assertFalse(gone & {save.id for save in saves[-keep:]})
        left = [save for save in saves if save.id not in gone]
        self.assertLessEqual(len(left), keep + hourly + daily)
        for period_ms, count in ((HOUR_MS, hourly), (DAY_MS, daily)):
            for period in range(now_ms // period_ms - count + 1, now_ms // period_ms + 1):
                there = [save for save in saves if save.saved_at // period_ms == period]
                self.assertTrue(not there or there[-1].id not in gone)
        self.assertEqual(thinned(saves, Retention(None, hourly, daily), now_ms / 1000), [])
