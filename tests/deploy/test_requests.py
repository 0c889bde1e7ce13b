"""Launch requests: hostile ones, hunts, command lines. Spec: 2 §4 Deploy server."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.hunts import HuntTable, Kind, Unlaunchable
from svcserver.deploy.routes import LaunchBody
from svcserver.deploy.supervisor import Program
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
    def test_good_requests_pass(self) -> None:
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
            words = Program("/bin/true").command(_launch(request), 1, "h")
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
            (("CITY",), Kind.CITY),
            (("SHARED", "", "ShatteredIsles_TrainingDojo"), Kind.DOJO),
            (("SHARED", "", "Other"), Kind.CITY),
            (("ISLAND", TUTORIAL), Kind.TUTORIAL),
            (("ISLAND", "", hunt, ("UID-a",)), Kind.HUNT),
            (("ISLAND", "", "", ()), Kind.CITY),
            (("ISLAND", "", hunt, ()), Kind.CITY),
            (("ODD",), Kind.CITY),
        ):
            self.assertIs(self.launch(*request).kind, kind, request)

    @proves("deploy: ISLAND with a hunt id and players: a new hunt")
    def test_every_hunt_of_the_table_launches_or_is_an_empty_one(self) -> None:
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
    def test_the_command_line_is_the_documented_one(self) -> None:
        program = Program("/srv/game", ("wine", "-x"), ("-server",), Secret("hush"))
        self.assertNotIn("hush", repr(program))
        city = program.command(self.launch("CITY"), 8777, "203.0.113.9")
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
        dojo = program.command(self.launch("SHARED", "", "ShatteredIsles_TrainingDojo"), 8776, "h")
        self.assertTrue(dojo[5].endswith("_C?MaxPlayers=12"))
        self.assertEqual(dojo[7], "CR19_MatchmakerHunt_ShatteredIsles_TrainingDojo")
        tutorial = program.command(self.launch("ISLAND", TUTORIAL), 8775, "h")
        self.assertEqual(tutorial[5], "/Game/Maps/islands/1705/dia_moss_triforce")
        self.assertEqual(
            tutorial[6], "/Game/Monsters/mcrollin/mcbeaver_tutorial_bp.mcbeaver_tutorial_bp_C"
        )
        hunt_id = "CR19_PlayerHunt_Escalation_Randall_Easy"
        hunt = program.command(self.launch("ISLAND", "", hunt_id, ("UID-a", "UID-b")), 8775, "h")
        self.assertEqual(hunt[6], "None")
        self.assertEqual(hunt[8], f"UID-a:{hunt_id},UID-b:{hunt_id}")

    @proves("deploy: ISLAND with a hunt id and players: a new hunt")
    def test_table_chooses_with_its_own_random_numbers(self) -> None:
        table = HuntTable.load(CITY_MAP)
        table.random.setstate(random.Random(3).getstate())
        first = table.launch(
            LaunchRequest("ISLAND", "", "CR19_PlayerHunt_Escalation_Randall_Easy", ("a",))
        )
        self.assertIs(first.kind, Kind.HUNT)
