"""Launches for requests, on a small table. Spec: 2 §4 Deploy server, launch."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.hunts import HuntTable, Kind, Launch, Unlaunchable
from svcserver.kernel.launch_requests import LaunchRequest

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


class HuntTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.table = HuntTable(HUNTS, ROWS, "/Game/city", PIT)

    def hunt(self, hunt_id: str, table: HuntTable | None = None) -> Launch:
        return (table or self.table).launch(LaunchRequest("ISLAND", "", hunt_id, WHO))

    def tutorial(self, arguments: str) -> Launch:
        return self.table.launch(LaunchRequest("ISLAND", arguments, ""))

    def test_a_row_with_everything(self) -> None:
        launch = self.hunt("Full")
        self.assertEqual(
            launch,
            Launch(
                Kind.HUNT,
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

    def test_a_row_without_mode_behemoth_and_weights(self) -> None:
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
            self.assertEqual((launch.kind, launch.max_players), (Kind.HUNT, 4))
        bare = HuntTable({"Arena_Hard": {"mm": []}}, {}, "", PIT)
        self.assertEqual(self.hunt("Arena_Hard", bare).behemoth_word, "None")
        for table in (HuntTable(HUNTS, ROWS), HuntTable.load()):
            with self.assertRaises(Unlaunchable):
                self.hunt("Arena_Hard", table)

    def test_a_hunt_without_an_entry_is_not_launched(self) -> None:
        with self.assertRaisesRegex(Unlaunchable, "Bare has no entry"):
            self.hunt("Bare")

    def test_a_trials_number_has_three_digits_from_001_to_088(self) -> None:
        hunts = {self.hunt("Arena_Hard").matchmaker_hunt for _ in range(3000)}
        every = {f"Arena_MatchmakerHunt_Hard_{number:03d}" for number in range(1, 89)}
        self.assertEqual(hunts, every)

    def test_a_map_of_the_tutorial_is_for_one(self) -> None:
        first = "/Game/Maps/islands/1705/dia_moss_triforce"
        beast = "/Game/Monsters/m/mcbeaver_tutorial_bp.mcbeaver_tutorial_bp_C"
        gnasher = "/Game/Monsters/m/gnasher_bp.gnasher_bp_C"
        for arguments, kind, behemoth, players in (
            (f"{first}?MaxPlayers=1?MonsterClass={gnasher}", Kind.TUTORIAL, gnasher, 1),
            (f"{first}_2?MaxPlayers=1?MonsterClass={beast}", Kind.TUTORIAL, beast, 1),
            (f"{first}?MaxPlayers=1?MonsterClass=", Kind.TUTORIAL, None, 1),
            (f"{first}_2?MaxPlayers=1?MonsterClass={gnasher}", Kind.HUNT, gnasher, None),
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
                Kind.DOJO,
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
        self.assertIn("X names the unknown hunt nowhere", str(caught.exception))
        with self.assertRaises(ValueError) as caught:
            HuntTable({}, {"Y": {"maps": []}})._check()
        self.assertIn("Y has no map", str(caught.exception))
        HuntTable(HUNTS, ROWS)._check()  # what trials name is lost
