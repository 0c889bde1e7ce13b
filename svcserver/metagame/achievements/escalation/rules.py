"""What an escalation save must satisfy, in the order it is checked. Spec: 1 §4 Escalation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Malformed, Missing

T = TypeVar("T")

INT_MAX = 2**31 - 1
STUB_XP = 99_999


@frozen
class Talent:
    """``rank_costs`` in points, one per rank."""

    id: str
    points_to_unlock: int
    rank_costs: Sequence[int]


@frozen
class Season:
    """A season of the registry; the order of talents and rewards is that of replies."""

    id: str
    enabled: bool
    talents: Mapping[str, Talent]
    rewards: Mapping[str, int]  # id -> level needed


@frozen
class Registry:
    """``level_costs[i]`` is the XP from level i to i + 1."""

    seasons: Mapping[str, Season]
    level_costs: Sequence[int]

    @property
    def max_level(self) -> int:
        """The last level."""
        return len(self.level_costs)

    def season(self, season_id: str) -> Season:
        """Raises Missing for an unknown id."""
        if season_id not in self.seasons:
            raise Missing("no such season")
        return self.seasons[season_id]


@frozen
class Save:
    """A season as sent; ids and ranks may be none of the registry's."""

    level: int
    xp: int
    talents: Sequence[tuple[str, int]]
    rewards: Sequence[tuple[str, bool]]  # whether it was collected
    version: int


@frozen
class State:
    """A season of an account, in canonical form."""

    level: int = 0
    xp: int = 0  # gathered within the level
    talents: Sequence[tuple[str, int]] = ()
    rewards: Sequence[str] = ()
    version: int = 0

    def same_content(self, other: State) -> bool:
        """Whether they differ in the version at most."""
        return (self.level, self.xp, tuple(self.talents), tuple(self.rewards)) == (
            other.level,
            other.xp,
            tuple(other.talents),
            tuple(other.rewards),
        )


class Seasons(Protocol):
    """What the rules need kept, inside one transaction."""

    def find(self, account_id: AccountId, season_id: str) -> State | None: ...

    def keep(self, account_id: AccountId, season_id: str, state: State) -> None: ...


def open_season(registry: Registry, season_id: str) -> Season:
    """A season that takes saves; raises Missing or Conflict."""
    season = registry.season(season_id)
    if not season.enabled:
        raise Conflict("this season is disabled")
    return season


def canonical(season: Season, registry: Registry, sent: Save) -> State:
    """What is sent in the registry's order, without what says nothing; raises Malformed."""
    if sent.level > registry.max_level:
        raise Malformed(f"escalation_level must be from 0 to {registry.max_level}")
    ranks, collected = _once(sent.talents, season.talents), _once(sent.rewards, season.rewards)
    for name, rank in ranks.items():
        if rank > len(season.talents[name].rank_costs):
            raise Malformed(f"{name} has fewer ranks")
    talents = tuple((name, ranks[name]) for name in season.talents if ranks.get(name))
    rewards = tuple(name for name in season.rewards if collected.get(name))
    return State(sent.level, sent.xp, talents, rewards, sent.version)


def _once(sent: Iterable[tuple[str, T]], known: Collection[str]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, value in sent:
        if name not in known or name in found:
            raise Malformed("a talent or reward is not one of this season, or is there twice")
        found[name] = value
    return found


def save(
    seasons: Seasons,
    account_id: AccountId,
    season: Season,
    sent: State,
    registry: Registry,
    notes: list[str],
    *,
    strict: bool,
) -> State:
    """Store a season; the stored state.  Raises Conflict."""
    stored = seasons.find(account_id, season.id)
    if stored is not None and sent.version == stored.version and sent.same_content(stored):
        notes.append("a repeat: nothing written")
        return stored
    _check_against(stored or State(), sent, registry)
    broken = soft_breaks(season, registry, sent)
    if broken and strict:
        raise Conflict("; ".join(broken))
    notes.extend(broken)
    seasons.keep(account_id, season.id, sent)
    return sent


def _check_against(stored: State, sent: State, registry: Registry) -> None:
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


def soft_breaks(season: Season, registry: Registry, sent: State) -> list[str]:
    """What does not add up but is stored all the same, unless strict."""
    found = []
    if sent.level < registry.max_level and sent.xp >= registry.level_costs[sent.level]:
        found.append("more XP than the level takes")
    spent = {name: sum(season.talents[name].rank_costs[:rank]) for name, rank in sent.talents}
    if sum(spent.values()) > sent.level:
        found.append("more talent points than levels")
    for name, _ in sent.talents:
        needed = season.talents[name].points_to_unlock
        lower = sum(
            cost for one, cost in spent.items() if season.talents[one].points_to_unlock < needed
        )
        if lower < needed:
            found.append(f"{name} needs {needed} points in lower tiers")
    found += [
        f"{name} needs level {season.rewards[name]}"
        for name in sent.rewards
        if sent.level < season.rewards[name]
    ]
    return found
