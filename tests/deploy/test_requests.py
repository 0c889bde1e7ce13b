"""Launch requests: hostile requests, hunts, command lines. Spec: 2 §4 Deploy server."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.hunts import GameServerKind, HuntTable, Launch, Unlaunchable
from svcserver.deploy.orders import Program
from svcserver.deploy.routes import LaunchBody
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.secrets import Secret
from tests.support.proves import proves

TUTORIAL = (
    "/Game/Maps/islands/1705/dia_moss_triforce?MaxPlayers=1"
    "?MonsterClass=/Game/Monsters/mcrollin/mcbeaver_tutorial_bp.mcbeaver_tutorial_bp_C"
    "?TODClass=/Game/World/atmospheres/a/b.b_C?HuntID=?ZonePreset=-1"
)
CITY_MAP = "/Game/Maps/city/river_02_persistent"


def check_body(body: Any) -> LaunchRequest:
    request: LaunchRequest = reader(LaunchBody)(body).checked()
    return request


def check(mode: Any, args: Any, hunt: Any, players: Any = None) -> LaunchRequest:
    sent = {"GameMode": mode, "GameArgs": args, "HuntId": hunt, "ExpectedPlayers": players}
    return check_body(sent)


class CheckTests(SynchronousTestCase):
    @proves("deploy: 400 bad_request: the input is checked here again")
    def test_valid_launch_requests_are_accepted(self) -> None:
        for request in (
            ("CITY", "", ""),
            (None, None, None),
            ("ISLAND", TUTORIAL, ""),
            ("anything", "free text?!", "A_1+"),
            ("ISLAND", "  ", "CR19_Patrol_Heroic+_Gem"),
        ):
            check(*request)

    @proves("deploy: 400 bad_request: the input is checked here again")
    def test_hostile_hunts_are_refused(self) -> None:
        for hunt in (
            "a b",
            "a:b",
            "a,b",
            "-x/..",
            "x" * 129,
            "a\n",
            "é",
            7,
            [],
            {},
            "a;rm",
            "$(x)",
        ):
            with self.assertRaises(Malformed):
                check("ISLAND", "", hunt)

    @proves("deploy: 400 bad_request: the input is checked here again")
    def test_hostile_arguments_are_refused(self) -> None:
        for args in (
            "/Game/Maps/x",
            "/Game/Maps/x?a",
            "/Game/Maps/x?a?b",
            "-x?a?b=",
            "/Game/../x?a?b=",
            "/etc/passwd?a?b=",
            "/Game/Maps/x?a?b=/etc/x.y",
            "/Game/Maps/x?a?b= /Game/a.b",
            "/Game/x'?a?b=",
            "/Game/x?a?=",
            "x" * 3000,
            "/Game//x?a?b=",
            "/Game/x/?a?b=",
            "/Game/Maps/x?a?b=/Game/nodot",
        ):
            with self.assertRaises(Malformed, msg=args):
                check("ISLAND", args, "")
        for bad in (7, [], {}):
            with self.assertRaises(Malformed):
                check("CITY", bad, "")
            with self.assertRaises(Malformed):
                check(bad, "", "")

    @proves("limit: Matchmaking expected players: at most 16")
    def test_expected_players_are_at_most_sixteen_plain_ids(self) -> None:
        check("ISLAND", "", "H", [f"UID-{n}" for n in range(16)])
        for players in (
            [f"UID-{n}" for n in range(17)],
            "UID-a",
            ["a:b"],
            ["a,b"],
            ["a b"],
            [""],
            [7],
            [None],
            {},
        ):
            with self.assertRaises(Malformed):
                check_body({"GameMode": "ISLAND", "HuntId": "H", "ExpectedPlayers": players})

    @proves("deploy: 400 bad_request: the input is checked here again")
    @given(
        st.dictionaries(
            st.sampled_from(["GameMode", "GameArgs", "HuntId", "ExpectedPlayers"]),
            st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists),
        )
    )
    def test_any_body_is_checked_or_refused(self, body: dict[str, object]) -> None:
        try:
            request = check_body(body)
        except Malformed as why:
            self.assertTrue(why.message)
        else:
            words = Program("/bin/true").command(_launch(request), 1, "h", "hush")
            self.assertFalse(any("\0" in word or "\n" in word for word in words))


def _launch(request: LaunchRequest):  # type: ignore[no-untyped-def]
    table = HuntTable.load(CITY_MAP)
    try:
        return table.launch(request)
    except Unlaunchable:
        return table.city()


class HuntTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.table = HuntTable.load(CITY_MAP, "/Game/Maps/arena/pit")
        self.table.random.seed(1)

    def launch(self, mode: str, args: str = "", hunt: str = "", players: tuple[str, ...] = ()):  # type: ignore[no-untyped-def]
        return self.table.launch(LaunchRequest(mode, args, hunt, players))

    @proves(
        "deploy: CITY: the city server; anything else: the city",
        "deploy: ISLAND with game args: the map named in them",
        "deploy: POST /api/matchmaker/handle-matchmaking-for-player",
        "deploy: SHARED with the dojo hunt: started on first use, or at boot",
    )
    def test_each_request_finds_its_kind(self) -> None:
        hunt = next(
            key for key, row in self.table.player_hunts.items() if row["mm"] and "Arena" not in key
        )
        for request, kind in (
            (("CITY",), GameServerKind.CITY),
            (("SHARED", "", "ShatteredIsles_TrainingDojo"), GameServerKind.DOJO),
            (("SHARED", "", "Other"), GameServerKind.CITY),
            (("ISLAND", TUTORIAL), GameServerKind.TUTORIAL),
            (("ISLAND", "", hunt, ("UID-a",)), GameServerKind.HUNT),
            (("ISLAND", "", "", ()), GameServerKind.CITY),
            (("ISLAND", "", hunt, ()), GameServerKind.CITY),
            (("ODD",), GameServerKind.CITY),
        ):
            self.assertIs(self.launch(*request).kind, kind, request)

    @proves("deploy: ISLAND with a hunt id and players: a new hunt")
    def test_every_hunt_of_the_table_launches_or_is_empty(self) -> None:
        for hunt_id, hunt in self.table.player_hunts.items():
            if not hunt["mm"] and "Arena" not in hunt_id:
                with self.assertRaises(Unlaunchable):
                    self.launch("ISLAND", "", hunt_id, ("UID-a",))
                continue
            launch = self.launch("ISLAND", "", hunt_id, ("UID-a", "UID-b"))
            self.assertTrue(launch.map.startswith("/Game/"))

    @proves("deploy: ISLAND with a hunt id and players: a new hunt")
    def test_unknown_hunts_and_missing_maps_are_unlaunchable(self) -> None:
        with self.assertRaises(Unlaunchable):
            self.launch("ISLAND", "", "Nope", ("UID-a",))
        with self.assertRaises(Unlaunchable):
            HuntTable.load().city()

    @proves("deploy: ISLAND with a hunt id and players: a new hunt")
    def test_a_trial_names_its_grade(self) -> None:
        for hunt_id in self.table.player_hunts:
            if "Arena" in hunt_id:
                launch = self.launch("ISLAND", "", hunt_id, ("UID-a",))
                grade = "Elite" if "Elite" in hunt_id else "Hard"
                self.assertRegex(
                    str(launch.matchmaker_hunt), rf"\AArena_MatchmakerHunt_{grade}_0\d\d\Z"
                )
                self.assertEqual((launch.map, launch.max_players), ("/Game/Maps/arena/pit", 4))

    @proves("deploy: ISLAND with game args: the map named in them")
    def test_the_command_line_has_the_documented_arguments(self) -> None:
        program = Program("/srv/game", ("wine", "-x"), ("-server",), Secret("hush"))
        self.assertNotIn("hush", repr(program))
        city = program.command(self.launch("CITY"), 8777, "203.0.113.9", "hush")
        self.assertEqual(
            city,
            [
                "wine",
                "-x",
                "/srv/game",
                "hush",
                "8777",
                CITY_MAP,
                "NO_BEHEMOTH",
                "NO_MM_HUNTID",
                "NO_EXPECTED_PLAYERS",
                "203.0.113.9:8777",
                "-server",
            ],
        )
        dojo = program.command(
            self.launch("SHARED", "", "ShatteredIsles_TrainingDojo"), 8776, "h", "hush"
        )
        self.assertTrue(dojo[5].endswith("_C?MaxPlayers=12"))
        self.assertEqual(dojo[7], "CR19_MatchmakerHunt_ShatteredIsles_TrainingDojo")
        tutorial = program.command(self.launch("ISLAND", TUTORIAL), 8775, "h", "hush")
        self.assertEqual(tutorial[5], "/Game/Maps/islands/1705/dia_moss_triforce")
        self.assertEqual(
            tutorial[6], "/Game/Monsters/mcrollin/mcbeaver_tutorial_bp.mcbeaver_tutorial_bp_C"
        )
        hunt_id = "CR19_PlayerHunt_Escalation_Randall_Easy"
        hunt = program.command(
            self.launch("ISLAND", "", hunt_id, ("UID-a", "UID-b")), 8775, "h", "hush"
        )
        self.assertEqual(hunt[6], "None")
        self.assertEqual(hunt[8], f"UID-a:{hunt_id},UID-b:{hunt_id}")

    @proves("deploy: ISLAND with a hunt id and players: a new hunt")
    def test_table_chooses_with_its_own_random_numbers(self) -> None:
        table = HuntTable.load(CITY_MAP)
        table.random.setstate(random.Random(3).getstate())
        first = table.launch(
            LaunchRequest("ISLAND", "", "CR19_PlayerHunt_Escalation_Randall_Easy", ("a",))
        )
        self.assertIs(first.kind, GameServerKind.HUNT)


PIT = "/Game/Maps/arena/pit"
PLAIN = {"maps": [["/Game/a", 0], ["/Game/b", 0]]}
HUNTS: dict[str, Any] = {
    "Full": {"mm": ["mm_full"]},
    "Plain": {"mm": ["mm_plain"]},
    "Pit": {"mm": ["mm_pit"]},
    "None": {"mm": []},
    "Arena_Elite": {"mm": []},
    "Arena_Hard": {"mm": ["lost"]},
    "Bare": {"mm": []},
    "P_Alpha": {"mm": ["mm_alpha"], "kind": "pursuit"},
    "P_Heroic": {"mm": ["mm_heroic"], "kind": "pursuit"},
    "Q_Heroic": {"mm": ["mm_full"], "kind": "patrol"},
}
ROWS: dict[str, Any] = {
    "mm_full": {
        "maps": [["/Game/full", 1.0]],
        "behemoth": "/Game/beast",
        "gameMode": "/Game/mode",
        "maxPlayers": 12,
    },
    "mm_plain": PLAIN,
    "mm_pit": {"maps": [["$TRIALS_MAP", 1.0]]},
    "mm_alpha": {"maps": [["/Game/c", 1.0]], "behemoth": "/Game/alpha"},
    "mm_heroic": {"maps": [["/Game/c", 1.0]], "behemoth": "/Game/heroic"},
}
WHO = ("UID-a", "UID-b")


class SmallTableTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.table = HuntTable(HUNTS, ROWS, "/Game/city", PIT)

    def hunt(self, hunt_id: str, table: HuntTable | None = None) -> Launch:
        return (table or self.table).launch(LaunchRequest("ISLAND", "", hunt_id, WHO))

    def tutorial(self, arguments: str) -> Launch:
        return self.table.launch(LaunchRequest("ISLAND", arguments, ""))

    def test_a_full_row_becomes_a_launch_with_every_argument(self) -> None:
        launch = self.hunt("Full")
        self.assertEqual(
            launch,
            Launch(
                GameServerKind.HUNT,
                "/Game/full",
                "?game=/Game/mode",
                "/Game/mode",
                "/Game/beast",
                "/Game/beast",
                "mm_full",
                "Full",
                WHO,
                12,
            ),
        )
        self.assertEqual(
            launch.arguments(8775, "203.0.113.9"),
            [
                "8775",
                "/Game/full?game=/Game/mode",
                "/Game/beast",
                "mm_full",
                "UID-a:Full,UID-b:Full",
                "203.0.113.9:8775",
            ],
        )

    def test_a_row_without_options_launches_any_of_its_maps(self) -> None:
        maps = {self.hunt("Plain").map for _ in range(50)}
        self.assertEqual(maps, {"/Game/a", "/Game/b"})
        launch = self.hunt("Plain")
        self.assertEqual((launch.options, launch.game_mode), ("", None))
        self.assertEqual((launch.behemoth, launch.behemoth_word), (None, "None"))
        self.assertIsNone(launch.max_players)

    def test_trials_map_replaces_its_placeholder(self) -> None:
        self.assertEqual(self.hunt("Pit").map, PIT)
        with self.assertRaises(Unlaunchable) as caught:
            self.hunt("Pit", HuntTable(HUNTS, ROWS, "/Game/city"))
        self.assertIn("TRIALS_MAP", str(caught.exception))
        mixed = {"mm_pit": {"maps": [["$TRIALS_MAP", 1.0], ["/Game/d", 1.0]]}}
        without = HuntTable(HUNTS, mixed, "/Game/city")
        self.assertEqual({self.hunt("Pit", without).map for _ in range(20)}, {"/Game/d"})

    def test_trials_have_a_behemoth_of_their_grade(self) -> None:
        for hunt_id, behemoth in (("Arena_Elite", "/Game/heroic"), ("Arena_Hard", "/Game/alpha")):
            launch = self.hunt(hunt_id)
            self.assertEqual((launch.behemoth, launch.behemoth_word), (behemoth, behemoth))
            self.assertEqual((launch.map, launch.hunt_id, launch.players), (PIT, hunt_id, WHO))
            self.assertEqual((launch.kind, launch.max_players), (GameServerKind.HUNT, 4))
        bare = HuntTable({"Arena_Hard": {"mm": []}}, {}, "", PIT)
        self.assertEqual(self.hunt("Arena_Hard", bare).behemoth_word, "None")
        for table in (HuntTable(HUNTS, ROWS), HuntTable.load()):
            with self.assertRaises(Unlaunchable):
                self.hunt("Arena_Hard", table)

    def test_a_hunt_without_an_entry_is_not_launched(self) -> None:
        with self.assertRaisesRegex(Unlaunchable, "Bare is empty"):
            self.hunt("Bare")

    def test_a_trials_number_has_three_digits_from_001_to_088(self) -> None:
        hunts = {self.hunt("Arena_Hard").matchmaker_hunt for _ in range(3000)}
        every = {f"Arena_MatchmakerHunt_Hard_{number:03d}" for number in range(1, 89)}
        self.assertEqual(hunts, every)

    def test_a_tutorial_map_is_launched_for_one_player(self) -> None:
        first = "/Game/Maps/islands/1705/dia_moss_triforce"
        beast = "/Game/Monsters/m/mcbeaver_tutorial_bp.mcbeaver_tutorial_bp_C"
        gnasher = "/Game/Monsters/m/gnasher_bp.gnasher_bp_C"
        for arguments, kind, behemoth, players in (
            (f"{first}?MaxPlayers=1?MonsterClass={gnasher}", GameServerKind.TUTORIAL, gnasher, 1),
            (f"{first}_2?MaxPlayers=1?MonsterClass={beast}", GameServerKind.TUTORIAL, beast, 1),
            (f"{first}?MaxPlayers=1?MonsterClass=", GameServerKind.TUTORIAL, None, 1),
            (f"{first}_2?MaxPlayers=1?MonsterClass={gnasher}", GameServerKind.HUNT, gnasher, None),
        ):
            launch = self.tutorial(arguments)
            self.assertIs(launch.kind, kind, arguments)
            self.assertEqual(launch.map, arguments.partition("?")[0])
            self.assertEqual((launch.behemoth, launch.max_players), (behemoth, players))
            self.assertEqual(launch.behemoth_word, behemoth or "NO_BEHEMOTH")
            self.assertEqual((launch.options, launch.players), ("", ()))

    def test_the_dojo_is_launched_as_documented(self) -> None:
        mode = "/Game/Blueprints/GameMode/BPGM_ArchonTrainingGrounds.BPGM_ArchonTrainingGrounds_C"
        self.assertEqual(
            self.table.dojo(),
            Launch(
                GameServerKind.DOJO,
                "/Game/Maps/islands/dojo/training_dojo_persistent",
                f"?game={mode}?MaxPlayers=12",
                mode,
                matchmaker_hunt="CR19_MatchmakerHunt_ShatteredIsles_TrainingDojo",
                max_players=12,
            ),
        )

    def test_without_settings_there_is_no_city(self) -> None:
        for table in (HuntTable(HUNTS, ROWS), HuntTable.load()):
            self.assertRaises(Unlaunchable, table.city)
            self.assertEqual(table.trials_map, "")

    def test_a_broken_table_is_named(self) -> None:
        with self.assertRaises(ValueError) as caught:
            HuntTable({"X": {"mm": ["nowhere"]}}, {})._check()
        self.assertIn(
            "X lists nowhere, which is not in matchmakerHunts",
            str(caught.exception),
        )
        with self.assertRaises(ValueError) as caught:
            HuntTable({}, {"Y": {"maps": []}})._check()
        self.assertIn("Y has no map", str(caught.exception))
        HuntTable(HUNTS, ROWS)._check()  # what trials name is lost
