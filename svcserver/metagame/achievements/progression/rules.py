"""What a grant adds, which rank it earns, what may be confirmed. Spec: 1 §4 Progression."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from attrs import evolve, frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Forbidden, Malformed, Missing
from svcserver.metagame.achievements.room import check_room

INT_MAX = 2**31 - 1
INT_MIN = -(2**31)
MAX_KNOWN = 10_000
PUBLIC, PREMIUM = "public", "premium"
_AMOUNT = re.compile(r"-?\d{1,10}\Z", re.ASCII)
_RANK = re.compile(r"\d{1,10}\Z", re.ASCII)
_DIGITS = re.compile(r"-?\d{1,18}\Z", re.ASCII)


@frozen
class Path:
    """A configured track; ``wire`` is what the client reads of it."""

    id: str
    gate: str  # the entitlement that opens the premium list; empty: none
    requirements: Sequence[tuple[int, int]]  # (rank_id, xp_required), rising
    xp_per_level: float | None  # prestige beyond the last rank
    permanent: Mapping[str, Sequence[tuple[int, str]]]  # kind -> (rank, entitlement)
    wire: Mapping[str, Any]

    @property
    def max_rank(self) -> int:
        """The last configured rank."""
        return self.requirements[-1][0]

    @property
    def total_xp(self) -> int:
        """What the last rank needs in all."""
        return min(sum(xp for _, xp in self.requirements), INT_MAX)

    def rank(self, progress: int) -> int:
        """The earned rank; must match the client's own arithmetic."""
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
    """Stored progress; ``confirmed_at`` epoch milliseconds, 0 before the first confirm."""

    id: str
    progress: int = 0
    confirmed_free: int = 0
    confirmed_premium: int = 0
    confirmed_at: int = 0


@frozen
class Objective:
    """Times are epoch milliseconds."""

    id: str
    progress: int
    completed_count: int
    created_at: int
    modified_at: int


class Book(Protocol):
    """What the rules need kept of an account, inside one transaction."""

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


def whole(value: Json) -> int | None:
    """A number or digit string as an int, fractions cut; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if _DIGITS.match(value) else None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    return value if isinstance(value, int) else None


def read_grant(body: Json) -> Grant:
    """The grant in a body; malformed entries are skipped.  Raises Malformed."""
    if not isinstance(body, dict):
        raise Malformed("the body must be an object")
    tracks: dict[str, int] = {}
    for entry in _entries(body, "progress_tracks"):
        name, amount = entry.get("progression_id"), whole(entry.get("progress"))
        if is_name(name) and amount is not None:
            tracks[name] = tracks.get(name, 0) + max(amount, 0)
    objectives: dict[str, tuple[int, int | None]] = {}
    for entry in _entries(body, "objectives"):
        name, value = entry.get("objective_id"), whole(entry.get("value"))
        if is_name(name) and value is not None:
            count = whole(entry.get("completed_count"))
            kept = None if count is None else min(max(count, 0), INT_MAX)
            objectives[name] = (min(max(value, INT_MIN), INT_MAX), kept)
    return Grant(tracks, objectives)


def _entries(body: Mapping[str, Json], name: str) -> list[dict[str, Json]]:
    listed = body.get(name)
    if listed is None:
        return []
    if not isinstance(listed, list):
        raise Malformed(f"{name} must be a list")
    return [one for one in listed if isinstance(one, dict)]


def apply_grant(
    book: Book,
    account_id: AccountId,
    grant: Grant,
    cap: int,
    at: int,
    notes: list[str],
    most: int = MAX_KNOWN,
) -> tuple[list[Track], list[Objective]]:
    """Add to tracks, replace objectives; each once, in the order asked.

    Raises Conflict for names beyond ``most`` of each, before anything is written.
    """
    stored = book.tracks(account_id) if grant.tracks else {}
    known = book.objectives(account_id) if grant.objectives else {}
    check_room(stored, grant.tracks, most)
    check_room(known, grant.objectives, most)
    tracks = []
    for name, amount in grant.tracks.items():
        track = _added(stored.get(name) or Track(name), amount, cap, notes)
        book.keep_track(account_id, track)
        tracks.append(track)
    objectives = [
        _objective(known.get(name), name, value, count, at, notes)
        for name, (value, count) in grant.objectives.items()
    ]
    book.keep_objectives(account_id, objectives)
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
    book: Book,
    account_id: AccountId,
    track_id: str,
    amount: str,
    cap: int,
    notes: list[str],
    most: int = MAX_KNOWN,
) -> Track:
    """Add an amount from a path; raises Malformed, Conflict for one track beyond ``most``."""
    if not _AMOUNT.match(amount) or not INT_MIN <= int(amount) <= INT_MAX or not is_name(track_id):
        raise Malformed("the amount must be a whole number")
    stored = book.tracks(account_id)
    check_room(stored, [track_id], most)
    before = stored.get(track_id) or Track(track_id)
    track = _added(before, max(int(amount), 0), cap, notes)
    book.keep_track(account_id, track)
    return track


@frozen
class Confirmation:
    """The ask of a confirm route."""

    rank: int
    kind: str


def read_confirmation(rank: str, kind: str) -> Confirmation:
    """Raises Malformed."""
    if kind not in (PUBLIC, PREMIUM) or not _RANK.match(rank):
        raise Malformed("a rank and public or premium")
    return Confirmation(int(rank), kind)


def confirm(
    book: Book, account_id: AccountId, path: Path, ask: Confirmation, active: set[str], at: int
) -> tuple[Track, list[tuple[int, str]]]:
    """Raise the confirmed rank, never above the earned one; the permanent entitlements of
    the newly confirmed ranks, each with its rank, are for the caller to grant.

    Raises Forbidden for a premium rank without the gate's entitlement.
    """
    track = book.tracks(account_id).get(path.id) or Track(path.id)
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
    book.keep_track(account_id, track)
    return track, [(rank, name) for rank, name in path.permanent[ask.kind] if old < rank <= new]


def reset(book: Book, account_id: AccountId, paths: Paths, track_id: str) -> Track:
    """Forget a track; raises Missing when neither configured nor stored."""
    if track_id not in paths and track_id not in book.tracks(account_id):
        raise Missing("no such track", code="not_found")
    book.drop_track(account_id, track_id)
    return Track(track_id)


def in_order(stored: Mapping[str, Track], paths: Paths) -> list[Track]:
    """Every configured track, stored or zeros, then the stored unknown ones by id."""
    known = [stored.get(name) or Track(name) for name in paths]
    return known + [stored[name] for name in sorted(stored) if name not in paths]


GRANDFATHER, FRESH = "grandfather", "fresh"


def seed(book: Book, account_id: AccountId, paths: Paths, mode: Json, at: int) -> list[Track]:
    """Every configured track at its end, fully confirmed; or everything at 0. Raises Malformed."""
    if mode not in (GRANDFATHER, FRESH):
        raise Malformed("Mode must be grandfather or fresh", code="bad_request")
    stored = book.tracks(account_id)
    if mode == FRESH:
        tracks = [Track(name) for name in [*paths, *(one for one in stored if one not in paths)]]
        book.drop_objectives(account_id)
    else:
        tracks = [_finished(stored.get(name) or Track(name), paths[name], at) for name in paths]
    for track in tracks:
        book.keep_track(account_id, track)
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


def huntpass_of(body: Json, paths: Paths) -> str:
    """The configured track a selection names; raises Malformed."""
    chosen = body.get("progression_id") if isinstance(body, dict) else None
    if not isinstance(chosen, str) or chosen not in paths:
        raise Malformed("progression_id must be a configured track")
    return chosen
