"""The rules of grants, ranks, confirmations and resets. Spec: 1 §4 Progression."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from attrs import evolve, frozen

from svcserver.kernel.refusals import Forbidden, Malformed
from svcserver.metagame.achievements.bounds import INT_MAX
from svcserver.metagame.achievements.entitlements.rules import Entitlement

INT_MIN = -(2**31)
PUBLIC, PREMIUM = "public", "premium"


@frozen
class Path:
    """A configured track with its ranks."""

    id: str
    gate: str  # the entitlement for premium rewards; empty without premium rewards
    requirements: Sequence[tuple[int, int]]  # (rank_id, xp_required) in increasing order
    xp_per_level: float | None  # XP per prestige level, beyond the last rank
    permanent: Mapping[str, Sequence[tuple[int, str]]]  # kind -> (rank, entitlement)

    @property
    def max_rank(self) -> int:
        """The highest configured rank."""
        return self.requirements[-1][0]

    @property
    def total_xp(self) -> int:
        """The total XP needed for the last rank."""
        return min(sum(xp for _, xp in self.requirements), INT_MAX)

    def rank(self, progress: int) -> int:
        """Return the rank earned by ``progress`` XP, computed exactly as the client does."""
        needed, earned = 0, 0
        for rank_id, xp in self.requirements:
            needed += xp
            if progress < needed:
                return earned
            earned = rank_id
        if self.xp_per_level is None:
            return earned
        return earned + math.floor((progress - needed) / self.xp_per_level)


Paths = Mapping[str, Path]


@frozen
class Track:
    """An account's progress in a track; ``confirmed_at`` (epoch ms) is 0 without a confirmation."""

    id: str
    progress: int = 0
    confirmed_free: int = 0
    confirmed_premium: int = 0
    confirmed_at: int = 0


@frozen
class Objective:
    """A stored objective; times are in epoch milliseconds."""

    id: str
    progress: int
    completed_count: int
    created_at: int
    modified_at: int


@frozen
class Grant:
    """A grant: the XP to add to each track, and the new values of objectives.

    ``objectives`` maps an objective's id to its value and its completed count. None keeps the count
    unchanged.
    """

    tracks: Mapping[str, int]
    objectives: Mapping[str, tuple[int, int | None]]


def grant_of(
    tracks: Iterable[tuple[str, int]], objectives: Iterable[tuple[str, int, int | None]]
) -> Grant:
    """Return the grant, in which the amounts for each track are added up.

    Negative amounts count as 0. The values and counts of objectives are clamped to 32 bits.
    """
    sums: dict[str, int] = {}
    for name, amount in tracks:
        sums[name] = sums.get(name, 0) + max(amount, 0)
    goals: dict[str, tuple[int, int | None]] = {}
    for name, value, count in objectives:
        clamped = None if count is None else min(max(count, 0), INT_MAX)
        goals[name] = (min(max(value, INT_MIN), INT_MAX), clamped)
    return Grant(sums, goals)


def grown_tracks(
    stored: Mapping[str, Track],
    amounts: Mapping[str, int],
    cap: int,
    notes: list[str],
) -> list[Track]:
    """Return the tracks with the amounts added to their progress.

    An amount above ``cap`` is reduced to ``cap``, and a sentence about this is added to ``notes``.
    """
    return [
        _added(stored.get(name) or Track(name), amount, cap, notes)
        for name, amount in amounts.items()
    ]


def set_objectives(
    stored: Mapping[str, Objective],
    values: Mapping[str, tuple[int, int | None]],
    at: int,
    notes: list[str],
) -> list[Objective]:
    """Return the objectives with their new values; ``at`` is in epoch milliseconds."""
    return [
        _objective(stored.get(name), name, value, count, at, notes)
        for name, (value, count) in values.items()
    ]


def _added(track: Track, amount: int, cap: int, notes: list[str]) -> Track:
    if amount > cap:
        notes.append(f"{track.id}: {amount} cut to {cap}")
    return evolve(track, progress=min(track.progress + min(amount, cap), INT_MAX))


def _objective(
    before: Objective | None, name: str, value: int, count: int | None, at: int, notes: list[str]
) -> Objective:
    if before is None:
        return Objective(name, value, count or 0, at, at)
    completed = before.completed_count if count is None else count
    if value < before.progress and completed <= before.completed_count:
        notes.append(f"{name}: lowered from {before.progress} to {value}")
    return evolve(before, progress=value, completed_count=completed, modified_at=at)


@frozen
class Confirmation:
    """A request to confirm a rank; ``kind`` is either ``PUBLIC`` or ``PREMIUM``."""

    rank: int
    kind: str


def confirm(
    track: Track, path: Path, ask: Confirmation, active: set[str], at: int
) -> tuple[Track, list[tuple[int, str]]]:
    """Increase the track's confirmed rank, but not above the earned rank.

    Returns the track, and pairs (rank, entitlement) for the newly confirmed ranks. The caller must
    grant these permanent entitlements. Raises Forbidden for a premium rank if ``active`` lacks the
    entitlement that the track requires.
    """
    premium = ask.kind == PREMIUM
    if premium and not path.gate:
        return track, []
    if premium and path.gate not in active:
        raise Forbidden("this account lacks the entitlement for premium rewards")
    old = track.confirmed_premium if premium else track.confirmed_free
    new = max(old, min(ask.rank, path.rank(track.progress)))
    if new == old:
        return track, []
    if premium:
        track = evolve(track, confirmed_premium=new, confirmed_at=at)
    else:
        track = evolve(track, confirmed_free=new, confirmed_at=at)
    return track, [(rank, name) for rank, name in path.permanent[ask.kind] if old < rank <= new]


def in_order(stored: Mapping[str, Track], paths: Paths) -> list[Track]:
    """Return all configured tracks, then the other stored tracks in the order of their ids.

    A configured track that is not stored is at 0.
    """
    known = [stored.get(name) or Track(name) for name in paths]
    return known + [stored[name] for name in sorted(stored) if name not in paths]


Mode = Literal["grandfather", "fresh"]


def seeded(stored: Mapping[str, Track], paths: Paths, mode: Mode, at: int) -> list[Track]:
    """Return the tracks to store when an admin sets an account's whole progress.

    If ``mode`` is ``fresh``, all tracks are at 0. If ``mode`` is ``grandfather``, each configured
    track has at least the XP of its last rank, and all its ranks are confirmed.
    """
    if mode == "fresh":
        return [Track(track.id) for track in in_order(stored, paths)]
    return [_finished(stored.get(name) or Track(name), paths[name], at) for name in paths]


def _finished(track: Track, path: Path, at: int) -> Track:
    progress = max(track.progress, path.total_xp)
    rank = max(path.rank(progress), path.max_rank)
    return evolve(
        track,
        progress=progress,
        confirmed_free=max(track.confirmed_free, rank),
        confirmed_premium=max(track.confirmed_premium, rank),
        confirmed_at=at,
    )


def configured(paths: Paths, track_id: str) -> str:
    """Return ``track_id`` if the track is configured; raises Malformed."""
    if track_id not in paths:
        raise Malformed("progression_id must be a configured track")
    return track_id


def selected(paths: Paths, chosen: str | None, default: str) -> str:
    """Return the id of the hunt pass: ``chosen`` if it is a configured track, else ``default``."""
    return chosen if chosen is not None and chosen in paths else default


# -- results of the owner's operations ----------------------------------------


@frozen
class ProgressionOverview:
    """An account's whole progression; if a track is not configured, its path is None."""

    real: bool
    hunt_pass: str
    tracks: Sequence[tuple[Track, Path | None]]
    objectives: Sequence[Objective]
    entitlements: Sequence[Entitlement]


@frozen
class Seeding:
    """The result after an admin has set all tracks of an account to their maximum or to 0.

    ``real`` is false if the account has fixed progression (PROGRESSION_MODE=stub): the game then
    shows fixed values instead of the stored values.
    """

    mode: Mode
    real: bool
    tracks: Sequence[Track]


@frozen
class Revoking:
    """The result of a revocation; ``was_active`` is true if the entitlement was in force."""

    was_active: bool
    left: Sequence[Entitlement]
