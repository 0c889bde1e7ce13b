"""Rules of grants, ranks, confirmations and resets. Spec: 1 §4 Progression."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from attrs import evolve, frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Forbidden, Malformed, Missing
from svcserver.metagame.achievements.bounds import INT_MAX, check_capacity
from svcserver.metagame.achievements.entitlements.rules import Entitlement

INT_MIN = -(2**31)
MAX_KNOWN = 10_000
PUBLIC, PREMIUM = "public", "premium"


@frozen
class Path:
    """A configured track."""

    id: str
    gate: str  # the entitlement needed for premium rewards; empty: there are none
    requirements: Sequence[tuple[int, int]]  # (rank_id, xp_required), rising
    xp_per_level: float | None  # prestige beyond the last rank
    permanent: Mapping[str, Sequence[tuple[int, str]]]  # kind -> (rank, entitlement)

    @property
    def max_rank(self) -> int:
        """The highest rank that is configured."""
        return self.requirements[-1][0]

    @property
    def total_xp(self) -> int:
        """The XP that the last rank needs in all."""
        return min(sum(xp for _, xp in self.requirements), INT_MAX)

    def rank(self, progress: int) -> int:
        """The rank earned by ``progress`` XP, computed as the client does."""
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
    """Stored progress; ``confirmed_at`` in epoch milliseconds, 0 before the first confirmation."""

    id: str
    progress: int = 0
    confirmed_free: int = 0
    confirmed_premium: int = 0
    confirmed_at: int = 0


@frozen
class Objective:
    """A stored objective; times in epoch milliseconds."""

    id: str
    progress: int
    completed_count: int
    created_at: int
    modified_at: int


class Progress(Protocol):
    """Stored progression, inside one transaction."""

    def tracks(self, account_id: AccountId) -> Mapping[str, Track]: ...

    def keep_track(self, account_id: AccountId, track: Track) -> None: ...

    def drop_track(self, account_id: AccountId, track_id: str) -> None: ...

    def objectives(self, account_id: AccountId) -> Mapping[str, Objective]: ...

    def keep_objectives(self, account_id: AccountId, changed: Sequence[Objective]) -> None: ...

    def drop_objectives(self, account_id: AccountId) -> None: ...


@frozen
class Grant:
    """Increments by track; (value, completed_count or None) by objective."""

    tracks: Mapping[str, int]
    objectives: Mapping[str, tuple[int, int | None]]


def grant_of(
    tracks: Iterable[tuple[str, int]], objectives: Iterable[tuple[str, int, int | None]]
) -> Grant:
    """The grant of ids and amounts as sent: each track summed up, numbers clamped to 32 bits."""
    sums: dict[str, int] = {}
    for name, amount in tracks:
        sums[name] = sums.get(name, 0) + max(amount, 0)
    goals: dict[str, tuple[int, int | None]] = {}
    for name, value, count in objectives:
        kept = None if count is None else min(max(count, 0), INT_MAX)
        goals[name] = (min(max(value, INT_MIN), INT_MAX), kept)
    return Grant(sums, goals)


def apply_grant(
    store: Progress,
    account_id: AccountId,
    grant: Grant,
    cap: int,
    at: int,
    notes: list[str],
    most: int = MAX_KNOWN,
) -> tuple[list[Track], list[Objective]]:
    """Add to tracks and replace objectives; returns them in the order of the grant.

    ``cap`` bounds each addition, with a note. Raises Conflict for more than ``most`` of either,
    before anything is written. ``at`` in epoch milliseconds.
    """
    stored = store.tracks(account_id) if grant.tracks else {}
    known = store.objectives(account_id) if grant.objectives else {}
    check_capacity(stored, grant.tracks, most)
    check_capacity(known, grant.objectives, most)
    tracks = []
    for name, amount in grant.tracks.items():
        track = _added(stored.get(name) or Track(name), amount, cap, notes)
        store.keep_track(account_id, track)
        tracks.append(track)
    objectives = [
        _objective(known.get(name), name, value, count, at, notes)
        for name, (value, count) in grant.objectives.items()
    ]
    store.keep_objectives(account_id, objectives)
    return tracks, objectives


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


def add(
    store: Progress,
    account_id: AccountId,
    track_id: str,
    amount: int,
    cap: int,
    notes: list[str],
    most: int = MAX_KNOWN,
) -> Track:
    """Add to one track; raises Conflict for a new one beyond ``most``."""
    stored = store.tracks(account_id)
    check_capacity(stored, [track_id], most)
    before = stored.get(track_id) or Track(track_id)
    track = _added(before, max(amount, 0), cap, notes)
    store.keep_track(account_id, track)
    return track


@frozen
class Confirmation:
    """A request to confirm a rank; ``kind`` is ``PUBLIC`` or ``PREMIUM``."""

    rank: int
    kind: str


def confirm(
    store: Progress, account_id: AccountId, path: Path, ask: Confirmation, active: set[str], at: int
) -> tuple[Track, list[tuple[int, str]]]:
    """Raise the confirmed rank, never above the earned one.

    Returns the track and the (rank, permanent entitlement) pairs of the newly confirmed ranks,
    which the caller grants. Raises Forbidden for a premium rank without the gate's entitlement.
    """
    track = store.tracks(account_id).get(path.id) or Track(path.id)
    premium = ask.kind == PREMIUM
    if premium and not path.gate:
        return track, []
    if premium and path.gate not in active:
        raise Forbidden("the premium list is not open to this account")
    old = track.confirmed_premium if premium else track.confirmed_free
    new = max(old, min(ask.rank, path.rank(track.progress)))
    if new == old:
        return track, []
    if premium:
        track = evolve(track, confirmed_premium=new, confirmed_at=at)
    else:
        track = evolve(track, confirmed_free=new, confirmed_at=at)
    store.keep_track(account_id, track)
    return track, [(rank, name) for rank, name in path.permanent[ask.kind] if old < rank <= new]


def reset(store: Progress, account_id: AccountId, paths: Paths, track_id: str) -> Track:
    """Forget a track; raises Missing when neither configured nor stored."""
    if track_id not in paths and track_id not in store.tracks(account_id):
        raise Missing("no such track", code="not_found")
    store.drop_track(account_id, track_id)
    return Track(track_id)


def in_order(stored: Mapping[str, Track], paths: Paths) -> list[Track]:
    """Every configured track, stored or zeros, then the stored unknown ones by id."""
    known = [stored.get(name) or Track(name) for name in paths]
    return known + [stored[name] for name in sorted(stored) if name not in paths]


Mode = Literal["grandfather", "fresh"]


def seed(store: Progress, account_id: AccountId, paths: Paths, mode: Mode, at: int) -> list[Track]:
    """Set every configured track to its end, fully confirmed, or everything to 0."""
    stored = store.tracks(account_id)
    if mode == "fresh":
        tracks = [Track(name) for name in [*paths, *(one for one in stored if one not in paths)]]
        store.drop_objectives(account_id)
    else:
        tracks = [_finished(stored.get(name) or Track(name), paths[name], at) for name in paths]
    for track in tracks:
        store.keep_track(account_id, track)
    return tracks


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
    """``track_id``, if it is configured; raises Malformed."""
    if track_id not in paths:
        raise Malformed("progression_id must be a configured track")
    return track_id


def selected(paths: Paths, chosen: str | None, default: str) -> str:
    """The hunt pass: the stored one while it is configured, else the default."""
    return chosen if chosen is not None and chosen in paths else default


# -- what the owner's operations give -----------------------------------------


@frozen
class Overview:
    """All of an account's progression; a track's path is None where it is not configured."""

    real: bool
    hunt_pass: str
    tracks: Sequence[tuple[Track, Path | None]]
    objectives: Sequence[Objective]
    entitlements: Sequence[Entitlement]


@frozen
class Seeding:
    """What a seed wrote; ``real``: whether the account has real progression."""

    mode: Mode
    real: bool
    tracks: Sequence[Track]


@frozen
class Revoking:
    """What a revocation did; ``was_active``: the entitlement was in force."""

    was_active: bool
    left: Sequence[Entitlement]
