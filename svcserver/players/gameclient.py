"""The game client's own words: its build and its hunts."""

from __future__ import annotations

BUILD = "239827_rel-1.4.4_shipping"
HUNTS = (
    "CR19_PlayerHunt_Patrol_Flame",
    "CR19_PlayerHunt_FTUE_Pursuit_Rock",
    "CR19_PlayerHunt_Patrol_Alpha_Gem",
)
NAMES = ("Ada", "Bo", "Cleo", "Dag", "Edda", "Finn", "Gro", "Hal")  # of players; made up
