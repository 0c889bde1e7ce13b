"""The lists of accounts, and the details of one account."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.secrets import fingerprint
from svcserver.kernel.times import iso
from svcserver.metagame.owner.people.acts import LastSeen
from tests.support.game import Game
from tests.support.proves import proves


class PeopleTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self)
        self.olga = self.game.player("Olga", admin=True)
        self.ann, self.bob = self.game.player("ann_1"), self.game.player("Bob_1")
        self.last_seen = LastSeen(self.game.ledger, self.game.parts.online)

    def ask(self, route: str, key: str | None = None) -> Any:
        return self.game.browse("GET", f"/svc/api/{route}", key=key or self.olga.key)

    def beat(self, token: str, place: str = "city_01_persistent") -> None:
        beat = {"map": place, "state": "island"}
        self.game.browse("POST", "/heartbeat", token=token, json=beat)
        self.successResultOf(Deferred.fromCoroutine(self.last_seen._store_last_seen()))

    def names(self, query: str) -> list[str]:
        return [
            account["name"] for account in self.ask(f"DashboardPeople?{query}").json["accounts"]
        ]

    @proves("GET DashboardPeople")
    def test_accounts_are_sorted_by_name_last_seen_and_role(self) -> None:
        self.assertEqual(self.names(""), ["ann_1", "Bob_1", "Olga"])
        self.beat(self.ann.token)
        self.game.clock.advance(60)
        self.beat(self.bob.token)
        self.assertEqual(self.names("Sort=seen"), ["Bob_1", "ann_1", "Olga"])
        self.assertEqual(self.names("Sort=role"), ["Olga", "ann_1", "Bob_1"])
        page = self.ask("DashboardPeople?Sort=age")
        self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))

    def test_a_part_of_a_name_or_id_is_searched_for(self) -> None:
        self.assertEqual(self.names("Text=OB"), ["Bob_1"])
        self.assertEqual(self.names("Text=_"), ["ann_1", "Bob_1"])
        self.assertEqual(self.names("Text=%25"), [])
        self.assertEqual(self.names(f"Text={self.ann.id[3:20]}"), ["ann_1"])
        self.assertEqual(self.ask("DashboardPeople?Text=" + "x" * 65).status, 400)

    def test_a_second_page_lists_the_remaining_accounts(self) -> None:
        for number in range(60):
            self.game.player(f"Zoe_{number:02}")
        first = self.ask("DashboardPeople").json
        self.assertEqual((len(first["accounts"]), first["nextOffset"]), (50, 50))
        rest = self.ask("DashboardPeople?Offset=50").json
        self.assertEqual((len(rest["accounts"]), rest["nextOffset"]), (13, None))

    def test_the_list_marks_online_banned_and_muted_accounts(self) -> None:
        self.beat(self.ann.token)
        for act, who in (("Ban", "Bob_1"), ("Mute", "ann_1")):
            body = {"Account": who, "For": "1h"}
            page = self.game.browse(
                "POST", f"/svc/api/Dashboard{act}", key=self.olga.key, json=body
            )
            self.assertEqual(page.status, 200)
        ann, bob, _ = self.ask("DashboardPeople").json["accounts"]
        self.assertEqual((ann["where"], ann["banned"], ann["muted"]), ("city", False, True))
        self.assertEqual((bob["where"], bob["banned"], bob["muted"]), (None, True, False))
        self.assertEqual(self.names("Only=banned"), ["Bob_1"])
        self.assertEqual(self.names("Only=muted&Sort=seen"), ["ann_1"])
        self.assertEqual(self.names("Only=muted&Text=bob"), [])
        self.assertEqual(self.names("Only=staff&Sort=role"), ["Olga"])
        self.assertEqual(self.names("Only=all"), ["ann_1", "Bob_1", "Olga"])
        self.assertEqual(self.ask("DashboardPeople?Only=online").status, 400)
        self.game.clock.advance(3601)
        self.assertEqual(self.names("Only=banned"), [])

    @proves("GET DashboardPeople", "GET DashboardPerson")
    def test_last_seen_and_key_fingerprint_are_shown(self) -> None:
        self.beat(self.ann.token)
        last_seen = iso(self.game.clock.seconds())
        ann, bob, _ = self.ask("DashboardPeople").json["accounts"]
        self.assertEqual((ann["lastSeen"], bob["lastSeen"]), (last_seen, None))
        for name, player, expected in (("ann_1", self.ann, last_seen), ("Bob_1", self.bob, None)):
            account = self.ask(f"DashboardPerson?Account={name}").json
            self.assertEqual(account["lastSeen"], expected)
            self.assertTrue(fingerprint(player.key).startswith(account["keyFingerprint"]))

    @proves("GET DashboardPerson")
    def test_one_account_is_found_by_name_or_id(self) -> None:
        self.beat(self.ann.token)
        body = {"Account": "ann_1", "For": "1h", "Reason": "spam", "Note": "twice"}
        self.game.browse("POST", "/svc/api/DashboardMute", key=self.olga.key, json=body)
        account = self.ask("DashboardPerson?Account=ANN_1").json
        self.assertEqual(account, self.ask(f"DashboardPerson?Account={self.ann.id}").json)
        self.assertEqual(
            (account["role"], account["where"], account["ban"]), ("player", "city", None)
        )
        self.assertEqual((account["mute"]["reason"], account["mute"]["note"]), ("spam", "twice"))
        self.assertEqual(self.ask("DashboardPerson?Account=nobody").status, 404)
        self.assertEqual(self.ask("DashboardPerson?Account=ann_1", self.bob.key).status, 403)

    def test_an_unchanged_look_writes_nothing(self) -> None:
        self.beat(self.ann.token)
        self.last_seen.ledger = None  # type: ignore[assignment]  # a write would fail
        self.successResultOf(Deferred.fromCoroutine(self.last_seen._store_last_seen()))
