"""Request and reply shapes of progression, and the fixed replies of stub progression.

Spec: 1 §4 Progression.
"""

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from attrs import frozen

from svcserver.kernel.envelope import Envelope, envelope
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import (
    As,
    Late,
    Lenient,
    Moment,
    Name,
    Skipping,
    TextWithNul,
    Unfit,
    pascal_case,
    spelled,
)
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.achievements.bounds import INT_MAX
from svcserver.metagame.achievements.entitlements.rules import Entitlement
from svcserver.metagame.achievements.progression.rules import (
    INT_MIN,
    PREMIUM,
    PUBLIC,
    Confirmation,
    Grant,
    Mode,
    Objective,
    Path,
    Paths,
    ProgressionOverview,
    Revoking,
    Seeding,
    Track,
    grant_of,
)
from svcserver.metagame.achievements.wire import EntitlementRecord, Hours, record

_AMOUNT = re.compile(r"-?\d{1,10}\Z", re.ASCII)
_RANK = re.compile(r"\d{1,10}\Z", re.ASCII)
_DIGITS = re.compile(r"-?\d{1,18}\Z", re.ASCII)
STUB_XP = 99_999_999
STUB_COUNT = 9_999_999
STUB_SEASON = "season09b"
STUB_WEAPONS = ("Strikers", "Hammer", "Repeaters", "ChainBlades", "Axe", "Sword", "Spear")
STUB_TRACKS = (
    STUB_SEASON,
    "MasteryTrack_PlayerLevel",
    "MasteryTrack_Behemoth",
    *(f"MasteryTrack_Weapon_{weapon}" for weapon in STUB_WEAPONS),
)


def read_amount(value: Json, _: object) -> int:
    """Return the integer in a JSON number or a string of digits; raises Unfit.

    The fractional part of a number is cut off.
    """
    if type(value) is int:
        return value
    if type(value) is float and math.isfinite(value):
        return int(value)
    if type(value) is str and _DIGITS.match(value):
        return int(value)
    raise Unfit("a number")


Amount = Annotated[int, As(read_amount, {"type": ["number", "string"]})]


@frozen
class TrackGrant:
    """The XP (``progress``) to add to a track; at most PROGRESSION_GRANT_CAP is added."""

    progression_id: Name
    progress: Amount


@frozen
class ObjectiveGrant:
    """An objective to set: its ``value`` and, if sent, its ``completed_count``."""

    objective_id: Name
    value: Amount
    completed_count: Lenient[Amount | None] = None


@frozen
class GrantBody:
    """A game server's grant; a missing list counts as empty, and invalid entries are skipped."""

    progress_tracks: Skipping[TrackGrant] | None = ()
    objectives: Skipping[ObjectiveGrant] | None = ()

    def grant(self) -> Grant:
        """Return the ``Grant`` that this request asks for."""
        return grant_of(
            [(entry.progression_id, entry.progress) for entry in self.progress_tracks or ()],
            [
                (entry.objective_id, entry.value, entry.completed_count)
                for entry in self.objectives or ()
            ],
        )


def amount_in_path(track_id: str, amount: str) -> int:
    """Return the amount from a path; raises Malformed if the amount or the track id is invalid."""
    if not _AMOUNT.match(amount) or not INT_MIN <= int(amount) <= INT_MAX or not is_name(track_id):
        raise Malformed("the amount must be a whole number")
    return int(amount)


def confirmation(rank: str, kind: str) -> Confirmation:
    """Return the Confirmation for the rank and kind in a path; raises Malformed."""
    if kind not in (PUBLIC, PREMIUM) or not _RANK.match(rank):
        raise Malformed("the path must name a rank, and public or premium")
    return Confirmation(int(rank), kind)


@frozen
class HuntPassRequest:
    """A request to select a track as the hunt pass."""

    progression_id: str


@spelled(pascal_case)
@frozen
class SeedRequest:
    """A request to set all tracks of an account to their maximum or to 0."""

    user_id: TextWithNul
    mode: Late[Mode]
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class RevokeRequest:
    """An entitlement to revoke, and the account that has it."""

    user_id: TextWithNul
    entitlement: Late[Name]
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class GrantRequest:
    """An entitlement to grant to an account.

    ``Duration`` is in hours; 0 or absent means forever.
    """

    user_id: TextWithNul
    entitlement: Late[Name]
    duration: Late[Hours] | None = None
    reason: Reason = ""


class TrackRecord(TypedDict):
    """An account's progress in a track, and the ranks that the client has confirmed."""

    phx_account_id: str
    progression_id: str
    progress: int
    confirmed_fremium_rank: int
    confirmed_premium_rank: int
    confirmed_date: Moment


class TrackReport(TrackRecord):
    """A player's track as admins see it; earned ranks are null if the track is not configured."""

    earned_free_rank: int | None
    earned_premium_rank: int | None


class ObjectiveRecord(TypedDict):
    """An objective as the client reads it; ``progress`` is the value reached so far."""

    phx_account_id: str
    objective_id: str
    progress: int
    completed_count: int
    created_date: Moment
    last_modified_date: Moment


class Granted(TypedDict):
    """The new totals of the tracks and objectives that the grant named."""

    progress_tracks: list[TrackRecord]
    objectives: list[ObjectiveRecord]


def track_record(account_id: AccountId, track: Track) -> TrackRecord:
    """Return a track as the client reads it."""
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
    """Return a track as admins see it; ``active`` are the names of entitlements in force."""
    earned = None if path is None else path.rank(track.progress)
    premium = None if path is None or earned is None else earned if path.gate in active else 0
    return {
        **track_record(account_id, track),
        "earned_free_rank": earned,
        "earned_premium_rank": premium,
    }


def objective_record(account_id: AccountId, objective: Objective) -> ObjectiveRecord:
    """Return an objective as the client reads it, with its times as ISO 8601."""
    return {
        "phx_account_id": account_id,
        "objective_id": objective.id,
        "progress": objective.progress,
        "completed_count": objective.completed_count,
        "created_date": iso(objective.created_at / 1000),
        "last_modified_date": iso(objective.modified_at / 1000),
    }


def stub_tracks(account_id: AccountId, paths: Paths) -> list[TrackRecord]:
    """Return the tracks of an account with fixed progression (PROGRESSION_MODE=stub).

    All these tracks are complete.
    """
    return [track_record(account_id, _stub_track(name, paths.get(name))) for name in STUB_TRACKS]


def _stub_track(name: str, path: Path | None) -> Track:
    rank = STUB_XP if name == STUB_SEASON or path is None else path.max_rank
    return Track(name, STUB_XP, rank, rank)


class Report(TypedDict):
    """An account's whole progression."""

    UserId: str
    RealMode: bool
    HuntPass: str
    Tracks: list[TrackReport]
    Objectives: list[ObjectiveRecord]
    Entitlements: list[EntitlementRecord]


class Seeded(TypedDict):
    """An account's tracks after an admin has set all of them."""

    UserId: str
    Mode: str
    RealMode: bool
    Tracks: list[TrackRecord]


class EntitlementsHeld(TypedDict):
    """An account's entitlements in force."""

    UserId: str
    Entitlements: list[EntitlementRecord]


class EntitlementRevoked(EntitlementsHeld):
    """The remaining entitlements; ``Revoked`` is true if the revoked entitlement was in force."""

    Revoked: bool


def show_report(account_id: AccountId, overview: ProgressionOverview) -> Report:
    """Return the reply with an account's whole progression."""
    active = {entitlement.name for entitlement in overview.entitlements}
    tracks = [track_report(account_id, track, path, active) for track, path in overview.tracks]
    return {
        "UserId": account_id,
        "RealMode": overview.real,
        "HuntPass": overview.hunt_pass,
        "Tracks": tracks,
        "Objectives": [objective_record(account_id, entry) for entry in overview.objectives],
        "Entitlements": _entitlements(overview.entitlements),
    }


def show_seeded(account_id: AccountId, done: Seeding) -> Seeded:
    """Return the reply to a request that sets all tracks of an account.

    If ``RealMode`` is false, the game shows fixed values instead of the tracks in this reply.
    """
    return {
        "UserId": account_id,
        "Mode": done.mode,
        "RealMode": done.real,
        "Tracks": [track_record(account_id, track) for track in done.tracks],
    }


def show_held(account_id: AccountId, held: Sequence[Entitlement]) -> EntitlementsHeld:
    """Return the reply to a grant of an entitlement."""
    return {"UserId": account_id, "Entitlements": _entitlements(held)}


def show_revoked(account_id: AccountId, done: Revoking) -> EntitlementRevoked:
    """Return the reply to a revocation."""
    return {
        "UserId": account_id,
        "Revoked": done.was_active,
        "Entitlements": _entitlements(done.left),
    }


def _entitlements(held: Sequence[Entitlement]) -> list[EntitlementRecord]:
    return [
        record(entitlement.name, entitlement.duration, entitlement.activated_at)
        for entitlement in held
    ]


def show_track(account_id: AccountId, track: Track) -> dict[str, Any]:
    """Return one track in an envelope whose code is the string ``OK``."""
    return envelope(track_record(account_id, track), code="OK")


def granted(
    account_id: AccountId, tracks: Sequence[Track], objectives: Sequence[Objective]
) -> Envelope[Granted]:
    """Return the reply to a grant, with the new totals."""
    payload: Granted = {
        "progress_tracks": [track_record(account_id, track) for track in tracks],
        "objectives": [objective_record(account_id, objective) for objective in objectives],
    }
    return {"code": "OK", "message": "OK", "payload": payload}
