"""The content of a heartbeat, and the kind of place that a player is in. Spec: 2 §2."""

import re
from enum import StrEnum

from attrs import frozen

from svcserver.kernel.ids import AccountId

_CITY = re.compile(r"[a-z]+_\d{2}_persistent\Z", re.IGNORECASE)
_DOJO = "training_dojo_persistent"
_TUTORIAL = "dia_moss_triforce"
LONGEST = 512  # characters stored of a map path or state word


@frozen
class Beat:
    """A player's last heartbeat as received: map path, state, and time (epoch seconds)."""

    account_id: AccountId
    map: str
    state: str
    at: float


class Place(StrEnum):
    """The kind of place that a player is in, for status pages and the dashboard."""

    MENU = "menu"
    CITY = "city"
    HUNT = "hunt"
    DOJO = "dojo"
    TUTORIAL = "tutorial"
    UNKNOWN = "unknown"


_BY_STATE = {
    "menu": Place.MENU,
    "lobby": Place.MENU,
    "city": Place.CITY,
    "island": Place.HUNT,
}


def place(map_path: str, state: str, city_map: str) -> Place:
    """Return the kind of place; ``map_path`` is a map's path or name. Arenas count as hunts."""
    name = map_name(map_path)
    if not name:
        return _BY_STATE.get(state, Place.UNKNOWN)
    folded = name.lower()
    if "loginmenu" in map_path.lower():
        return Place.MENU
    if _DOJO in folded:
        return Place.DOJO
    if (city_map and folded == map_name(city_map).lower()) or _CITY.match(name):
        return Place.CITY
    if folded == _TUTORIAL:
        return Place.TUTORIAL
    return Place.HUNT


def map_name(map_path: str) -> str:
    """Return the last segment of a map path, without map options."""
    return map_path.partition("?")[0].rstrip("/").rpartition("/")[2].strip()
