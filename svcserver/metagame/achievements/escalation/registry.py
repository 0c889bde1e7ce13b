"""Loads the registry of seasons from ``data/seasons.json``; raises BadData."""

from __future__ import annotations

from typing import Any

from svcserver.kernel import datafiles
from svcserver.metagame.achievements.escalation.rules import Registry, Season, Talent

PACKAGE, FILE = "svcserver.metagame.achievements.escalation", "seasons.json"


def load() -> Registry:
    """Seasons, talents and rewards of data/escalation.json, checked; raises BadData."""
    return datafiles.load(PACKAGE, FILE, _registry)


def _registry(said: dict[str, Any]) -> Registry:
    costs = [_count(one) for one in said["level_costs"]]
    seasons = [_season(one, len(costs)) for one in said["seasons"]]
    if not costs or len({one.id for one in seasons}) != len(seasons):
        raise ValueError("needs level costs, and each season once")
    return Registry({one.id: one for one in seasons}, costs)


def _season(row: dict[str, Any], levels: int) -> Season:
    talents = [
        Talent(
            _text(one["id"]),
            _count(one["points_to_unlock"]),
            tuple(_count(cost) for cost in one["rank_costs"]),
        )
        for one in row["talents"]
    ]
    rewards = {_text(one["id"]): _count(one["level"]) for one in row["rewards"]}
    name = _text(row["id"])
    if len({one.id for one in talents}) != len(talents) or len(rewards) != len(row["rewards"]):
        raise ValueError(f"{name} names a talent or reward twice")
    if any(level > levels for level in rewards.values()):
        raise ValueError(f"{name} has a reward beyond the last level")
    if not isinstance(row["enabled"], bool):
        raise ValueError(f"{name}: enabled must be true or false")
    return Season(name, row["enabled"], {one.id: one for one in talents}, rewards)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is not an id")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a whole number from 0")
    return value
