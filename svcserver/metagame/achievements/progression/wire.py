"""Tracks and objectives as the client reads them; the fixed replies of stub progression."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from svcserver.kernel.ids import AccountId
from svcserver.kernel.times import iso
from svcserver.metagame.achievements.progression.rules import Objective, Path, Paths, Track

STUB_XP = 99_999_999
STUB_COUNT = 9_999_999
STUB_SEASON = "season09b"
STUB_WEAPONS = ("Strikers", "Hammer", "Repeaters", "ChainBlades", "Axe", "Sword", "Spear")
STUB_TRACKS = (
    STUB_SEASON,
    "MasteryTrack_PlayerLevel",
    "MasteryTrack_Behemoth",
    *(f"MasteryTrack_Weapon_{one}" for one in STUB_WEAPONS),
)


class TrackRecord(TypedDict):
    """``phx_account_id`` is always the account in the URL; ``fremium`` is the client's spelling."""

    phx_account_id: str
    progression_id: str
    progress: int
    confirmed_fremium_rank: int
    confirmed_premium_rank: int
    confirmed_date: str


class TrackReport(TrackRecord):
    """For admins: with the ranks earned, null for an unconfigured track."""

    earned_free_rank: int | None
    earned_premium_rank: int | None


class ObjectiveRecord(TypedDict):
    """An objective's absolute progress."""

    phx_account_id: str
    objective_id: str
    progress: int
    completed_count: int
    created_date: str
    last_modified_date: str


class TrackGrant(TypedDict):
    """``progress`` is added to the track, up to the cap."""

    progression_id: str
    progress: int


class ObjectiveGrant(TypedDict):
    """``value`` replaces what is stored."""

    objective_id: str
    value: int
    completed_count: NotRequired[int]


class GrantBody(TypedDict):
    """What a game server grants; a list that is missing is empty."""

    progress_tracks: NotRequired[list[TrackGrant]]
    objectives: NotRequired[list[ObjectiveGrant]]


class Granted(TypedDict):
    """The new totals of what was granted."""

    progress_tracks: list[TrackRecord]
    objectives: list[ObjectiveRecord]


class ConfigReply(TypedDict):
    """Configured tracks with their ranks and rewards, as in the season files."""

    paths: list[dict[str, Any]]


class HuntPassWish(TypedDict):
    """A configured track."""

    progression_id: str


def track_record(account_id: AccountId, track: Track) -> TrackRecord:
    """As the game reads it."""
    return {
        "phx_account_id": account_id,
        "progression_id": track.id,
        "progress": track.progress,
        "confirmed_fremium_rank": track.confirmed_free,
        "confirmed_premium_rank": track.confirmed_premium,
        "confirmed_date": iso(track.confirmed_at / 1000),
    }


def track_report(
    account_id: AccountId, track: Track, path: Path | None, active: set[str]
) -> TrackReport:
    """As an admin reads it."""
    earned = None if path is None else path.rank(track.progress)
    premium = None if path is None or earned is None else earned if path.gate in active else 0
    return {
        **track_record(account_id, track),
        "earned_free_rank": earned,
        "earned_premium_rank": premium,
    }


def objective_record(account_id: AccountId, one: Objective) -> ObjectiveRecord:
    """As the game reads it."""
    return {
        "phx_account_id": account_id,
        "objective_id": one.id,
        "progress": one.progress,
        "completed_count": one.completed_count,
        "created_date": iso(one.created_at / 1000),
        "last_modified_date": iso(one.modified_at / 1000),
    }


def stub_tracks(account_id: AccountId, paths: Paths) -> list[TrackRecord]:
    """Everything at its end."""
    return [track_record(account_id, _stub_track(name, paths.get(name))) for name in STUB_TRACKS]


def _stub_track(name: str, path: Path | None) -> Track:
    rank = STUB_XP if name == STUB_SEASON or path is None else path.max_rank
    return Track(name, STUB_XP, rank, rank)


def stub_objective(account_id: AccountId, name: str) -> ObjectiveRecord:
    """Any objective, done."""
    return objective_record(account_id, Objective(name, STUB_COUNT, STUB_COUNT, 0, 0))
