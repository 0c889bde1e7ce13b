"""The rules for saving an account's progress in a season. Spec: 1 §4 Escalation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from attrs import evolve, frozen

from svcserver.kernel.refusals import Conflict, Malformed, Missing

T = TypeVar("T")

STUB_XP = 99_999


@frozen
class Talent:
    """A talent; ``rank_costs`` lists the cost of each rank in points."""

    id: str
    points_to_unlock: int
    rank_costs: Sequence[int]


@frozen
class Season:
    """A season in the registry; its talents and rewards have the same order in every reply."""

    id: str
    enabled: bool
    talents: Mapping[str, Talent]
    rewards: Mapping[str, int]  # id -> level needed


@frozen
class SeasonRegistry:
    """All seasons; ``level_costs[i]`` is the XP needed to get from level i to the next."""

    seasons: Mapping[str, Season]
    level_costs: Sequence[int]

    @property
    def max_level(self) -> int:
        return len(self.level_costs)

    def season(self, season_id: str) -> Season:
        """Return the season with this id; raises Missing."""
        if season_id not in self.seasons:
            raise Missing("no such season")
        return self.seasons[season_id]


@frozen
class SeasonValues:
    """A season as sent, before its ids and ranks are checked against the registry."""

    level: int
    xp: int
    talents: Sequence[tuple[str, int]]
    rewards: Sequence[tuple[str, bool]]  # (reward id, whether it was collected)
    version: int


@frozen
class SeasonState:
    """An account's season in canonical form: in the registry's order and without zero values."""

    level: int = 0
    xp: int = 0  # XP gained within the current level
    talents: tuple[tuple[str, int], ...] = ()
    rewards: tuple[str, ...] = ()
    version: int = 0

    def same_content(self, state: SeasonState) -> bool:
        """Return whether both states are equal except for their versions."""
        return evolve(self, version=state.version) == state


def open_season(registry: SeasonRegistry, season_id: str) -> Season:
    """Return the season if it accepts saves; raises Missing or Conflict."""
    season = registry.season(season_id)
    if not season.enabled:
        raise Conflict("this season is disabled")
    return season


def canonical(season: Season, registry: SeasonRegistry, sent: SeasonValues) -> SeasonState:
    """Return the save in canonical form; raises Malformed for unknown ids and invalid ranks."""
    if sent.level > registry.max_level:
        raise Malformed(f"escalation_level must be from 0 to {registry.max_level}")
    ranks, collected = _once(sent.talents, season.talents), _once(sent.rewards, season.rewards)
    for name, rank in ranks.items():
        if rank > len(season.talents[name].rank_costs):
            raise Malformed(f"{name} has fewer ranks")
    talents = tuple((name, ranks[name]) for name in season.talents if ranks.get(name))
    rewards = tuple(name for name in season.rewards if collected.get(name))
    return SeasonState(sent.level, sent.xp, talents, rewards, sent.version)


def _once(sent: Iterable[tuple[str, T]], known: Collection[str]) -> dict[str, T]:
    values: dict[str, T] = {}
    for name, value in sent:
        if name not in known or name in values:
            raise Malformed("a talent or reward is not of this season, or is listed twice")
        values[name] = value
    return values


def accept(
    stored: SeasonState | None,
    sent: SeasonState,
    season: Season,
    registry: SeasonRegistry,
    notes: list[str],
    *,
    strict: bool,
) -> bool:
    """Return True if ``sent`` is to be stored, and False if ``sent`` repeats the stored save.

    Raises Conflict for an invalid save. If a valid save breaks soft rules (see ``soft_breaks``),
    the broken rules are added to ``notes``; with ``strict``, Conflict is raised instead.
    """
    if stored is not None and sent.version == stored.version and sent.same_content(stored):
        notes.append("a repeat: nothing written")
        return False
    _check_against(stored or SeasonState(), sent, registry)
    broken = soft_breaks(season, registry, sent)
    if broken and strict:
        raise Conflict("; ".join(broken))
    notes.extend(broken)
    return True


def _check_against(stored: SeasonState, sent: SeasonState, registry: SeasonRegistry) -> None:
    if sent.version == stored.version:
        raise Conflict("this version is stored with other content")
    if sent.version < stored.version:
        raise Conflict("a newer version is stored")
    if (sent.level, sent.xp) < (stored.level, stored.xp):
        raise Conflict("progress may not go down")
    top = registry.max_level
    if sent.level == top and sent.xp >= STUB_XP and stored.level != top:
        raise Conflict("these are the fixed values of stub progression")
    if not set(stored.rewards) <= set(sent.rewards):
        raise Conflict("a collected reward stays collected")


def soft_breaks(season: Season, registry: SeasonRegistry, sent: SeasonState) -> list[str]:
    """Describe each soft rule that a save breaks.

    A save that breaks a soft rule is inconsistent, for example because its talents cost more points
    than its level gives. Such a save is refused only with ESCALATION_STRICT.
    """
    broken = []
    if sent.level < registry.max_level and sent.xp >= registry.level_costs[sent.level]:
        broken.append("more XP than the level takes")
    spent = {name: sum(season.talents[name].rank_costs[:rank]) for name, rank in sent.talents}
    if sum(spent.values()) > sent.level:
        broken.append("more talent points than levels")
    for name, _ in sent.talents:
        needed = season.talents[name].points_to_unlock
        lower = sum(
            cost
            for talent, cost in spent.items()
            if season.talents[talent].points_to_unlock < needed
        )
        if lower < needed:
            broken.append(f"{name} needs {needed} points in lower tiers")
    broken += [
        f"{name} needs level {season.rewards[name]}"
        for name in sent.rewards
        if sent.level < season.rewards[name]
    ]
    return broken
