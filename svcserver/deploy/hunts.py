"""The mapping from launch requests to launches, read from data/hunts.json.

Spec: 2 §4 Deploy server.
"""

from __future__ import annotations

import random  # for the type; the numbers come from the kernel
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from attrs import field, frozen

from svcserver.kernel import datafiles
from svcserver.kernel.launch_requests import ISLAND, SHARED, LaunchRequest
from svcserver.kernel.system import generator

PACKAGE, FILE = "svcserver.deploy", "hunts.json"
TRIALS_MAP = "$TRIALS_MAP"
DOJO_HUNT = "ShatteredIsles_TrainingDojo"
DOJO_MAP = "/Game/Maps/islands/dojo/training_dojo_persistent"
DOJO_MODE = "/Game/Blueprints/GameMode/BPGM_ArchonTrainingGrounds.BPGM_ArchonTrainingGrounds_C"
DOJO_MATCHMAKER_HUNT = "CR19_MatchmakerHunt_ShatteredIsles_TrainingDojo"
NO_BEHEMOTH = "NO_BEHEMOTH"
NO_HUNT = "NO_MM_HUNTID"
NO_PLAYERS = "NO_EXPECTED_PLAYERS"
ELITE, HARD = "Elite", "Hard"
TRIALS = 88


class GameServerKind(StrEnum):
    """The kinds of game servers."""

    CITY = "city"
    HUNT = "hunt"
    DOJO = "dojo"
    TUTORIAL = "tutorial"


class Unlaunchable(Exception):
    """The error when a game server cannot be launched; the answer is 500 ``no_game_server``."""


@frozen
class Launch:
    """The parameters of a launch; a parameter that does not apply is None."""

    kind: GameServerKind
    map: str
    options: str = ""
    game_mode: str | None = None
    behemoth: str | None = None
    behemoth_word: str = NO_BEHEMOTH
    matchmaker_hunt: str | None = None
    hunt_id: str | None = None
    players: tuple[str, ...] = ()
    max_players: int | None = None
    match_id: str = ""  # the metagame's id of the players' match

    def arguments(self, port: int, host: str) -> list[str]:
        """Return arguments 2 to 7 of the server's command line; players connect to ``host``."""
        expected = ",".join(f"{player}:{self.hunt_id}" for player in self.players)
        return [
            str(port),
            self.map + self.options,
            self.behemoth_word,
            self.matchmaker_hunt or NO_HUNT,
            expected or NO_PLAYERS,
            f"{host}:{port}",
        ]


@frozen
class HuntTable:
    """The hunt table; ``random`` chooses among the maps and hunts that a hunt id allows."""

    player_hunts: Mapping[str, Any]
    matchmaker_hunts: Mapping[str, Any]
    city_map: str = ""
    trials_map: str = ""
    random: random.Random = field(factory=generator)

    @classmethod
    def load(cls, city_map: str = "", trials_map: str = "") -> HuntTable:
        """Load the built-in table; raises BadData if it is invalid."""

        def checked(tables: dict[str, Any]) -> HuntTable:
            table = cls(tables["playerHunts"], tables["matchmakerHunts"], city_map, trials_map)
            table._check()
            return table

        return datafiles.load(PACKAGE, FILE, checked)

    def _check(self) -> None:
        for hunt_id, hunt in self.player_hunts.items():
            for wanted in hunt["mm"]:
                if wanted not in self.matchmaker_hunts and "Arena" not in hunt_id:
                    raise ValueError(
                        f"playerHunts: {hunt_id} lists {wanted}, which is not in matchmakerHunts"
                    )
        for wanted, row in self.matchmaker_hunts.items():
            if not row["maps"]:
                raise ValueError(f"{wanted} has no map")

    def launch(self, request: LaunchRequest) -> Launch:
        """Return the launch parameters for a validated request; raises Unlaunchable."""
        if request.names_a_map:
            return self.tutorial(request)
        if request.game_mode == ISLAND and request.hunt_id and request.players:
            return self.hunt(request.hunt_id, request.players)
        if request.game_mode == SHARED and request.hunt_id == DOJO_HUNT:
            return self.dojo()
        return self.city()

    def city(self) -> Launch:
        """Return the launch parameters of the city; raises Unlaunchable if CITY_MAP is not set."""
        if not self.city_map:
            raise Unlaunchable("CITY_MAP is not set")
        return Launch(GameServerKind.CITY, self.city_map)

    def dojo(self) -> Launch:
        """Return the launch parameters of the training dojo, for at most twelve players."""
        return Launch(
            GameServerKind.DOJO,
            DOJO_MAP,
            f"?game={DOJO_MODE}?MaxPlayers=12",
            DOJO_MODE,
            matchmaker_hunt=DOJO_MATCHMAKER_HUNT,
            max_players=12,
        )

    def tutorial(self, request: LaunchRequest) -> Launch:
        """Return the launch parameters of a game server with the map that the request names."""
        behemoth = request.behemoth
        base = behemoth.rpartition("/")[2]
        tutorial = "_tutorial_bp" in base or request.map_path.endswith("/dia_moss_triforce")
        return Launch(
            GameServerKind.TUTORIAL if tutorial else GameServerKind.HUNT,
            request.map_path,
            behemoth=behemoth or None,
            behemoth_word=behemoth or NO_BEHEMOTH,
            max_players=1 if tutorial else None,
        )

    def hunt(self, hunt_id: str, players: tuple[str, ...]) -> Launch:
        """Return the launch parameters of a hunt, on one of its maps; raises Unlaunchable."""
        known = self.player_hunts.get(hunt_id)
        if known is None:
            raise Unlaunchable(f"unknown hunt {hunt_id}")
        if "Arena" in hunt_id:
            return self._trial(hunt_id, players)
        if not known["mm"]:
            raise Unlaunchable(f"the list mm of hunt {hunt_id} is empty")
        wanted = self.random.choice(known["mm"])
        row = self.matchmaker_hunts[wanted]
        behemoth, mode = row.get("behemoth"), row.get("gameMode")
        return Launch(
            GameServerKind.HUNT,
            self._map(wanted, row["maps"]),
            f"?game={mode}" if mode else "",
            mode,
            behemoth,
            behemoth or "None",
            wanted,
            hunt_id,
            players,
            row.get("maxPlayers"),
        )

    def _map(self, hunt: str, maps: list[list[Any]]) -> str:
        usable = [
            (self.trials_map if path == TRIALS_MAP else path, weight)
            for path, weight in maps
            if path != TRIALS_MAP or self.trials_map
        ]
        if not usable:
            raise Unlaunchable(f"hunt {hunt} needs TRIALS_MAP")
        weights = [weight for _, weight in usable]
        if not any(weights):
            weights = [1.0] * len(usable)
        [(path, _)] = self.random.choices(usable, weights)
        return str(path)

    def _trial(self, hunt_id: str, players: tuple[str, ...]) -> Launch:
        if not self.trials_map:
            raise Unlaunchable("TRIALS_MAP is not set")
        grade = ELITE if ELITE in hunt_id else HARD
        number = self.random.randint(1, TRIALS)
        behemoth = self._trial_behemoth(grade)
        return Launch(
            GameServerKind.HUNT,
            self.trials_map,
            behemoth=behemoth,
            behemoth_word=behemoth or "None",
            matchmaker_hunt=f"Arena_MatchmakerHunt_{grade}_{number:03d}",
            hunt_id=hunt_id,
            players=players,
            max_players=4,
        )

    def _trial_behemoth(self, grade: str) -> str | None:
        """Return a random behemoth from the pursuits of this grade.

        The original game assigned a behemoth to each trial, but that table is lost.
        """
        ending = "_Heroic" if grade == ELITE else "_Alpha"
        behemoths = [
            self.matchmaker_hunts[wanted].get("behemoth")
            for hunt_id, hunt in self.player_hunts.items()
            if hunt.get("kind") == "pursuit" and hunt_id.endswith(ending)
            for wanted in hunt["mm"]
        ]
        usable = sorted({behemoth for behemoth in behemoths if behemoth})
        return self.random.choice(usable) if usable else None
