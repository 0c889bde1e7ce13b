"""The display names of hunts and game servers, for owners and players. Spec: 2 §2 Server status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from svcserver.kernel import datafiles
from svcserver.metagame.play.presence.rules import map_name

PACKAGE, FILE = "svcserver.metagame.owner.management", "titles.json"


@frozen
class Titles:
    """The display names of behemoths and hunts, from the data file."""

    behemoths: Mapping[str, str]
    matchmaker_hunts: Mapping[str, str]
    player_hunts: Mapping[str, str]

    @classmethod
    def load(cls) -> Titles:
        """Return the display names from the data file; raises BadData."""
        return datafiles.load(PACKAGE, FILE, cls._from_json)

    @classmethod
    def _from_json(cls, data: dict[str, Any]) -> Titles:
        for name in ("behemoths", "matchmakerHunts", "playerHunts"):
            if not isinstance(data[name], dict):
                raise ValueError(f"{name} must be a JSON object")
        return cls(data["behemoths"], data["matchmakerHunts"], data["playerHunts"])

    def behemoth(self, record: Mapping[str, Any]) -> str | None:
        """Return the display name of a game server's behemoth, or None if it has no behemoth."""
        path = record.get("behemoth")
        if not isinstance(path, str) or not path:
            return None
        titled = self.matchmaker_hunts.get(str(record.get("matchmakerHuntId")))
        if titled:
            return titled
        base = path.rpartition("/")[2].partition(".")[0]
        return self.behemoths.get(base) or base.removesuffix("_bp")

    def hunt(self, hunt_id: str) -> str:
        """Return the display name of a hunt, or the hunt's id if it has no display name."""
        return self.matchmaker_hunts.get(hunt_id) or self.player_hunts.get(hunt_id) or hunt_id

    def title(self, record: Mapping[str, Any], city_title: str) -> str:
        """Return the display title of a game server."""
        match record.get("kind"):
            case "city":
                return city_title
            case "dojo":
                return "Training Dojo"
            case "tutorial":
                return "Tutorial"
        name = (
            self.behemoth(record)
            or self.player_hunts.get(str(record.get("huntId")))
            or map_name(str(record.get("map") or ""))
        )
        return f"Hunt: {name}"
