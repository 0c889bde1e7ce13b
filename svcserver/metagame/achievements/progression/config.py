"""The configured tracks: the built-in tracks, which the owner's season files may replace.

Spec: 1 §4 GET /progression/config. PROGRESSION_CONFIG_DIR is a folder of ``*.json`` files, read in
order of name. Each file contains one track, a list of tracks, or a whole configuration. A track
replaces the built-in track with the same id; a track with a new id is added at the end.
"""

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import orjson
from attrs import field, frozen

from svcserver.kernel import datafiles, json
from svcserver.kernel.datafiles import BadData
from svcserver.kernel.json import Fragment
from svcserver.kernel.names import is_name
from svcserver.metagame.achievements.progression.rules import PREMIUM, PUBLIC, Path

PACKAGE, FILE = "svcserver.metagame.achievements.progression", "tracks.json"
MAX_XP = 2**31 - 1
LISTS = ("free_rewards", "premium_rewards")


@frozen
class Tracks:
    """The configured tracks; ``active`` is the id of the default hunt pass.

    ``wire`` is the payload of ``GET /progression/config``.
    """

    paths: Mapping[str, Path]
    active: str
    wire: Fragment = field(repr=False, eq=False)


Sent = tuple[Path, Mapping[str, Any]]
"""A track, and its JSON form from the file."""


def load(folder: str | None, active: str) -> Tracks:
    """Load the built-in tracks and the folder's files.

    Raises BadData if a file is invalid, or if ``active`` is not a configured track.
    """
    sent = datafiles.load(PACKAGE, FILE, _built_in)
    if folder:
        sent = {**sent, **_from_folder(FilePath(folder))}
    if active not in sent:
        raise BadData(f"ACTIVE_HUNT_PASS {active!r} is not a configured track; choose another")
    written = Fragment(json.dump({"paths": [wire for _, wire in sent.values()]}))
    return Tracks({name: path for name, (path, _) in sent.items()}, active, written)


def _built_in(data: dict[str, Any]) -> dict[str, Sent]:
    rows = [_expanded(track) for track in data["tracks"]]
    return {path.id: (path, row) for row in rows for path in [path_of(row)]}


def _from_folder(folder: FilePath) -> dict[str, Sent]:
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not files:
        raise BadData(
            f"PROGRESSION_CONFIG_DIR {folder} has no season file; add one, or remove the setting"
        )
    paths: dict[str, Sent] = {}
    for file in files:
        try:
            for sent in _listed(orjson.loads(file.read_bytes())):
                path = path_of(sent)
                if path.id in paths:
                    raise ValueError(f"{path.id} is listed twice")
                paths[path.id] = path, sent
        except (OSError, ValueError) as error:
            text = f"PROGRESSION_CONFIG_DIR {file}: {error}; correct the file or remove it"
            raise BadData(text) from None
    return paths


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        raise ValueError("the file must hold a track or a list of tracks")
    whole = value.get("payload") if isinstance(value.get("payload"), dict) else value
    paths = whole.get("paths", [value]) if isinstance(whole, dict) else None
    if not isinstance(paths, list):
        raise ValueError('"paths" must be a list of tracks')
    return paths


def path_of(sent: Any) -> Path:
    """Parse and validate a track in the JSON form of a season file; raises ValueError."""
    if not isinstance(sent, dict) or not is_name(sent.get("progression_id")):
        raise ValueError("a track has no valid progression_id")
    name = sent["progression_id"]
    gate = sent.get("premium_gating_entitlement", "")
    if not isinstance(gate, str):
        raise ValueError(f"track {name}: premium_gating_entitlement must be a string")
    for key in LISTS:
        if not isinstance(sent.get(key, []), list):
            raise ValueError(f"track {name}: {key} must be a list")
    permanent = {
        PUBLIC: _permanent(sent.get("free_rewards", []), name),
        PREMIUM: _permanent(sent.get("premium_rewards", []), name),
    }
    requirements = _requirements(sent, name)
    ranks = {rank for rank, _ in requirements}
    for key in LISTS:
        if any(reward["rank_id"] not in ranks for reward in sent.get(key, [])):
            raise ValueError(f"track {name}: {key} has a rank_id that requirements does not list")
    return Path(name, gate, requirements, _prestige(sent, name), permanent)


def _requirements(sent: dict[str, Any], name: str) -> list[tuple[int, int]]:
    listed, requirements = sent.get("requirements"), []
    if not isinstance(listed, list) or not listed:
        raise ValueError(f"track {name}: requirements must be a list that is not empty")
    last = -1
    for entry in listed:
        rank, xp = (
            (entry.get("rank_id"), entry.get("xp_required")) if isinstance(entry, dict) else (0, 0)
        )
        if type(rank) is not int or rank <= last:
            raise ValueError(
                f"track {name}: each rank_id must be a whole number above the previous rank_id"
            )
        if type(xp) is not int or not 0 <= xp <= MAX_XP:
            raise ValueError(f"track {name}: xp_required must be a whole number from 0 to {MAX_XP}")
        last = rank
        requirements.append((rank, xp))
    return requirements


def _prestige(sent: dict[str, Any], name: str) -> float | None:
    prestige = sent.get("prestige")
    if prestige is None:
        return None
    step = prestige.get("xp_per_level") if isinstance(prestige, dict) else None
    if isinstance(step, bool) or not isinstance(step, int | float) or step <= 0:
        raise ValueError(f"track {name}: xp_per_level in prestige must be a number above 0")
    return step


def _permanent(rewards: list[Any], name: str) -> list[tuple[int, str]]:
    permanent = []
    for reward in rewards:
        if not isinstance(reward, dict) or type(reward.get("rank_id")) is not int:
            raise ValueError(f"track {name}: the rank_id of each reward must be a whole number")
        entitlements = reward.get("entitlements") or []
        if not isinstance(entitlements, list):
            raise ValueError(f"track {name}: the entitlements of each reward must be a list")
        for entitlement in entitlements:
            if not isinstance(entitlement, dict) or not is_name(entitlement.get("entitlement")):
                raise ValueError(f"track {name}: an entitlement of a reward has no valid name")
            if entitlement.get("duration", 0) == 0:
                permanent.append((reward["rank_id"], entitlement["entitlement"]))
    return permanent


def _expanded(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row of the built-in data to the JSON form that season files use."""
    numbers = range(len(row["xp_required_by_rank_from_0"]))
    prestige = row["prestige"]
    return {
        "progression_id": row["progression_id"],
        "premium_gating_entitlement": row["premium_gating_entitlement"],
        "progression_multiplier": row["progression_multiplier"],
        "start_date": row["start_date"],
        "end_date": row["end_date"],
        "requirements": [
            {"rank_id": rank, "xp_required": row["xp_required_by_rank_from_0"][rank]}
            for rank in numbers
        ],
        "free_rewards": _rewards(row["free_rewards"], numbers),
        "premium_rewards": _rewards(row["premium_rewards"], numbers),
        "prestige": prestige
        and {
            "xp_per_level": prestige["xp_per_level"],
            "free_rewards": {"stacked_items": _prestige_items(prestige["free"])},
            "premium_rewards": {"stacked_items": _prestige_items(prestige["premium"])},
        },
    }


def _prestige_items(rows: list[list[Any]]) -> list[dict[str, Any]]:
    return [{"catalog_id": item, "hidden": False, "quantity": count} for item, count in rows]


def _rewards(by_rank: dict[str, Any], numbers: range) -> list[dict[str, Any]]:
    if not by_rank:
        return []
    return [_reward(rank, by_rank.get(str(rank), {})) for rank in numbers if rank > 0]


def _reward(rank: int, reward: dict[str, Any]) -> dict[str, Any]:
    return {
        "rank_id": rank,
        "entitlements": [
            {"entitlement": name, "duration": hours}
            for name, hours in reward.get("entitlements", [])
        ],
        "instanced_items": reward.get("instanced", []),
        "ordered_instanced_items": [],
        "stacked_items": [
            {"catalog_id": item, "quantity": count, "priority": priority, "hidden": hidden}
            for item, count, priority, hidden in reward.get("stacked", [])
        ],
    }
