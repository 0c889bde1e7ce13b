"""The admin routes that only the dashboard uses."""

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.invite import decode
from svcserver.metagame.chat_ports import figures
from svcserver.metagame.owner.dashboard import acts
from svcserver.metagame.owner.dashboard.state import ChatFigures, ChatRoom
from svcserver.metagame.owner.features import PAGE_READS
from tests.chat.fixture import ChatFixture
from tests.ctl.command import new_host, nowhere
from tests.support.belongings import Owner
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.proves import proves

ROUTES = (
    ("GET", "DashboardSaveDiff?CharacterId=x&From=1&To=2"),
    ("GET", "DashboardLoadoutDiff?CharacterId=x&From=1&To=2"),
    ("POST", "DashboardJoin"),
    ("POST", "DashboardJoinStrings"),
    ("GET", "DashboardOpenApi"),
    ("GET", "DashboardEntitlements"),
    ("GET", "DashboardHistory"),
    ("GET", "DashboardPeople"),
    ("GET", "DashboardPerson?Account=Ann_1"),
    ("GET", "DashboardEvents?page=beat"),
)


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.game = Game(self, BACKEND_HEALTH="1")
        self.admin = self.game.player("Owner_1", admin=True)

    def ask(self, route: str, method: str = "GET", **how: Any) -> Any:
        how = {"key": self.admin.key, **how}
        return self.game.browse(method, f"/svc/api/{route}", **how)


class AccessTests(Case):
    @proves(
        "GET DashboardSaveDiff",
        "POST DashboardJoin",
        "POST DashboardJoinStrings",
        "GET DashboardOpenApi",
        "GET DashboardLoadoutDiff",
    )
    def test_refusals_have_the_order_of_every_admin_route(self) -> None:
        ann = self.game.player("Ann_1")
        for method, route in ROUTES:
            replies = [
                self.ask(route, method, headers={"Via": "1.1 x"}),
                self.ask(route, method, key=None),
                self.ask(route, method, key="UUK_" + "0" * 48),
                self.ask(route, method, key=ann.key),
            ]
            self.assertEqual([reply.status for reply in replies], [403, 401, 401, 403], route)
            self.assertEqual([reply.body for reply in replies], [b""] * 4, route)

    @proves(
        "GET DashboardSaveDiff",
        "POST DashboardJoin",
        "GET DashboardOpenApi",
    )
    def test_replies_may_not_be_cached(self) -> None:
        for _, route in ROUTES:
            refused = any(word in route for word in ("Join", "Diff", "Person", "Events"))
            if not refused:
                page = self.ask(route)
                self.assertEqual((page.status, page.headers["cache-control"]), (200, "no-store"))

    @proves("GET DashboardEntitlements")
    def test_costly_reads_are_limited_for_each_account(self) -> None:
        second = self.game.player("Owner_2", admin=True).key
        for _ in range(PAGE_READS):
            self.assertEqual(self.ask("DashboardEntitlements").status, 200)
        for route in ("DashboardEntitlements", "DashboardSaveDiff?CharacterId=x&From=1&To=2"):
            page = self.ask(route)
            self.assertEqual((page.status, page.headers["retry-after"]), (429, "60"))
        self.assertEqual(self.ask("DashboardEntitlements", key=second).status, 200)


class SaveDiffTests(Case):
    def setUp(self) -> None:
        super().setUp()
        self.ann = Owner.of(self.game, "Ann_1")
        for version, level in ((1, 3), (2, 4)):
            body = {
                "characterId": self.ann.character,
                "data": json.dumps({"level": level}),
                "updateVersion": version,
            }
            page = self.game.browse("POST", "/character", json=body, token=self.ann.player.token)
            self.assertEqual(page.status, 200)

    def diff(self, old: Any, new: Any) -> Any:
        return self.ask(f"DashboardSaveDiff?CharacterId={self.ann.character}&From={old}&To={new}")

    @proves("GET DashboardSaveDiff")
    def test_two_versions_are_compared(self) -> None:
        self.assertEqual(
            self.diff(1, 2).json,
            {
                "tooLarge": False,
                "changes": [{"path": "level", "before": "3", "after": "4"}],
                "more": 0,
            },
        )
        self.assertEqual(self.diff(2, 2).json["changes"], [])

    @proves("GET DashboardSaveDiff")
    def test_missing_versions_are_404_and_invalid_versions_400(self) -> None:
        self.assertEqual(self.diff(1, 9).status, 404)
        for bad in ("", "x", "-1", "9" * 17, "²"):
            self.assertEqual(self.diff(1, bad).status, 400, bad)
        self.assertEqual(self.ask("DashboardSaveDiff?From=1&To=2").status, 400)

    def test_too_large_documents_are_not_compared(self) -> None:
        self.patch(acts, "MAX_SIZE", 1)
        self.assertEqual(self.diff(1, 2).json, {"tooLarge": True, "changes": [], "more": 0})


class LoadoutDiffTests(Case):
    def setUp(self) -> None:
        super().setUp()
        self.ann = Owner.of(self.game, "Ann_1")
        weapon = json.dumps({"instance_data": json.dumps({"SheenType": 9})})
        for index, data in (("0", "{}"), ("0", f'{{"weapon":{weapon}}}'), ("1", '{"flask":"F"}')):
            path = f"/loadout/{self.ann.player.id}/{self.ann.character}/{index}"
            page = self.game.browse("POST", path, json={"data": data}, token=self.ann.player.token)
            self.assertEqual(page.status, 200)

    def diff(self, old: Any, new: Any) -> Any:
        query = f"CharacterId={self.ann.character}&From={old}&To={new}"
        return self.ask(f"DashboardLoadoutDiff?{query}")

    @proves("GET DashboardLoadoutDiff")
    def test_slots_are_compared_by_their_place(self) -> None:
        reply = self.diff(2, 3).json
        self.assertEqual((reply["tooLarge"], reply["more"]), (False, 0))
        weapon = json.dumps({"instance_data": json.dumps({"SheenType": 9})}, separators=(",", ":"))
        self.assertEqual(reply["changes"], [{"path": "0.weapon", "before": None, "after": weapon}])
        [added] = self.diff(3, 4).json["changes"]
        self.assertEqual((added["path"], added["before"]), ("1", None))
        removed = {change["path"] for change in self.diff(1, 2).json["changes"]}
        self.assertIn("0.flask", removed)
        self.assertEqual(self.diff(4, 4).json["changes"], [])

    @proves("GET DashboardLoadoutDiff")
    def test_missing_versions_are_404_and_invalid_versions_400(self) -> None:
        self.assertEqual(self.diff(1, 9).status, 404)
        self.assertEqual(self.diff(1, "x").status, 400)
        self.assertEqual(self.ask("DashboardLoadoutDiff?From=1&To=2").status, 400)


class ChatTests(Case):
    def shown(self) -> Any:
        """Return what the chat page's stream sends."""
        desk = self.game.parts.desk
        reads, reports = acts.DashboardActs(self.game.ledger, list), desk.reports()
        pages = desk.pages(reads, desk.overview(reports), desk.game_servers(reports))
        look: Any = pages.reader_for_page("chat")
        return json.loads(self.successResultOf(Deferred.fromCoroutine(look())))

    @proves("GET DashboardEvents")
    def test_without_chat_the_figures_are_off_and_empty(self) -> None:
        none = {"on": False, "connections": 0, "people": 0, "roomCount": 0, "rooms": []}
        self.assertEqual(self.shown(), none)

    def test_rooms_are_shown_as_the_chat_counts_them(self) -> None:
        room = ChatRoom("General", "General", "", 1, ["Ann_1"])
        self.game.parts.dashboard.chat = lambda: ChatFigures(2, 1, 1, [room])
        shown = {
            "on": True,
            "connections": 2,
            "people": 1,
            "roomCount": 1,
            "rooms": [
                {
                    "room": "General",
                    "title": "General",
                    "kind": "General",
                    "id": "",
                    "count": 1,
                    "names": ["Ann_1"],
                }
            ],
        }
        self.assertEqual(self.shown(), shown)

    def test_a_room_has_a_title_for_people(self) -> None:
        ann = self.game.player("Ann_1")
        body = {"name": "Lanterns", "nameplate": "LAN"}
        self.game.browse("POST", "/guild/validate", token=ann.token, json=body)
        body |= {"leader_account_id": ann.id}
        made = self.game.browse("POST", "/guild", game_server=GAME_SERVER_KEY, json=body)
        self.assertEqual(made.status, 200, made.body)
        [guild] = self.ask("Guilds").json
        names = ["Ann_1", "Bob_1", "Cleo", "Dag_1"]
        rooms = [
            ChatRoom("Guild-x", "Guild", guild["guildId"], 1, names[:1]),
            ChatRoom("Guild-y", "Guild", "y", 1, names[:1]),
            ChatRoom("Party-p", "Party", "p", 4, names),
            ChatRoom("City-1", "City", "1", 2, names[:2]),
        ]
        self.game.parts.dashboard.chat = lambda: ChatFigures(4, 4, 4, rooms)
        titles = [room["title"] for room in self.shown()["rooms"]]
        wanted = ["Lanterns", "A guild", "Party of Ann_1, Bob_1, Cleo and others", "City"]
        self.assertEqual(titles, wanted)

    @proves("GET DashboardEntitlements")
    def test_entitlements_that_can_be_granted_are_listed_in_order(self) -> None:
        ann = self.game.player("Ann_1")
        grant = {"UserId": ann.id, "Entitlement": "gift_of_autumn"}
        self.assertEqual(self.ask("GrantEntitlement", "POST", json=grant).status, 200)
        names = self.ask("DashboardEntitlements").json["names"]
        self.assertEqual(names, sorted(names))
        self.assertLessEqual({"gift_of_autumn", "season09b_premium"}, set(names))

    @proves("GET DashboardEvents")
    def test_rooms_are_counted_without_their_lines(self) -> None:
        fixture = ChatFixture()
        for number in (1, 2):
            fixture.bound(number).join("General")
        fixture.bound(3)
        reply = figures(fixture.server)
        self.assertEqual((reply.connections, reply.people, reply.room_count), (3, 3, 1))
        [room] = reply.rooms
        self.assertEqual((room.room, room.kind, room.count), ("General", "General", 2))
        self.assertEqual(room.names, ["Player1", "Player2"])


class JoinTests(Case):
    def setUp(self) -> None:
        super().setUp()
        self.code = self.ask("CreateInvite", "POST", json={}).json["code"]

    def join(self, code: Any = None) -> Any:
        return self.ask("DashboardJoin", "POST", json={"Code": code or self.code})

    @proves("POST DashboardJoin")
    def test_without_a_configuration_folder_there_is_only_the_code(self) -> None:
        reply = self.join()
        self.assertEqual(reply.headers["cache-control"], "no-store")
        self.assertEqual((reply.json["join"], reply.json["qr"]), (None, None))
        self.assertIn("does not know the host's folder", reply.json["why"])

    @proves("POST DashboardJoin")
    def test_a_host_that_only_this_machine_reaches_has_no_join_string(self) -> None:
        folder = nowhere(self)
        folder.mkdir(exist_ok=True)
        (folder / "metagame.env").write_text("BIND_HOST=127.0.0.1\n", encoding="utf-8")
        self.game.parts.dashboard.folder = folder
        reply = self.join().json
        self.assertEqual(
            (reply["join"], reply["why"]), (None, "only this machine can reach this host")
        )

    @proves("POST DashboardJoin")
    def test_a_public_host_returns_the_join_string_and_qr_code(self) -> None:
        self.game.parts.dashboard.folder = new_host(nowhere(self))
        reply = self.join().json
        invite = decode(reply["join"])
        self.assertEqual((invite.code, invite.host), (self.code, "203.0.113.10"))
        self.assertEqual({len(row) for row in reply["qr"]}, {len(reply["qr"])})
        self.assertEqual(set("".join(reply["qr"])), {"0", "1"})
        self.assertEqual(len(reply["words"].split()), 8)
        self.assertIn(f": {reply['words']}.", reply["letter"][-1])

    def test_a_host_that_cannot_be_named_says_why(self) -> None:
        folder = nowhere(self)
        folder.mkdir()
        for name in ("relay", "gateway", "metagame"):
            (folder / f"{name}.env").write_text("")
        self.game.parts.dashboard.folder = folder
        reply = self.join().json
        self.assertIsNone(reply["join"])
        self.assertTrue(reply["why"])

    @proves("POST DashboardJoin")
    def test_an_unknown_or_missing_code_is_refused(self) -> None:
        self.assertEqual(self.join("NONE-NONE-NONE").json["error"], "not_found")
        bodies: list[Any] = [{}, {"Code": 7}, [], {"Code": None}]
        for body in bodies:
            page = self.ask("DashboardJoin", "POST", json=body)
            self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
        page = self.ask("DashboardJoin", "POST", data=b"{", headers={"Content-Type": "x"})
        self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))

    @proves("POST DashboardJoinStrings")
    def test_fifty_codes_get_their_join_strings_at_once(self) -> None:
        self.game.parts.dashboard.folder = new_host(nowhere(self))
        codes = self.ask("DashboardInvites", "POST", json={"Count": 50}).json["codes"]
        reply = self.ask("DashboardJoinStrings", "POST", json={"Codes": codes})
        self.assertEqual(reply.headers["cache-control"], "no-store")
        invites = reply.json["invites"]
        self.assertEqual([decode(invite["join"]).code for invite in invites], codes)
        self.assertEqual(len({"".join(invite["qr"]) for invite in invites}), 50)

    @proves("POST DashboardJoinStrings")
    def test_too_many_or_unknown_codes_are_refused(self) -> None:
        for codes, status in (([self.code] * 51, 400), ([7], 400), ([self.code, "NO-NE"], 404)):
            page = self.ask("DashboardJoinStrings", "POST", json={"Codes": codes})
            self.assertEqual(page.status, status, codes)


class DocumentTests(Case):
    @proves("GET DashboardOpenApi")
    def test_the_document_lists_itself(self) -> None:
        reply = self.ask("DashboardOpenApi").json
        self.assertEqual(reply["openapi"], "3.1.0")
        self.assertIn("get", reply["paths"]["/svc/api/DashboardOpenApi"])
