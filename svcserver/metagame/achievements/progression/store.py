"""The tables of tracks, objectives, hunt pass choices and last grants."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId
from svcserver.metagame.achievements.progression.config import load
from svcserver.metagame.achievements.progression.rules import Objective, Paths, Track

TRACKS = sa.Table(
    "progression_tracks",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("progression_id", sa.String(128), primary_key=True),
    sa.Column("progress", sa.BigInteger, nullable=False),
    sa.Column("confirmed_free", sa.BigInteger, nullable=False),
    sa.Column("confirmed_premium", sa.BigInteger, nullable=False),
    sa.Column("confirmed_at", sa.BigInteger, nullable=False),  # epoch milliseconds
)
OBJECTIVES = sa.Table(
    "progression_objectives",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("objective_id", sa.String(128), primary_key=True),
    sa.Column("progress", sa.BigInteger, nullable=False),
    sa.Column("completed_count", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("modified_at", sa.BigInteger, nullable=False),
)
LAST_GRANTS = sa.Table(
    "progression_last_grants",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("body_hash", sa.String(64), nullable=False),
    sa.Column("reply", sa.LargeBinary, nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),
)
HUNT_PASSES = sa.Table(
    "hunt_passes",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("progression_id", sa.String(128), nullable=False),
)
_T, _O, _L, _H = TRACKS.c, OBJECTIVES.c, LAST_GRANTS.c, HUNT_PASSES.c
_TRACKS = sa.select(TRACKS).where(_T.account_id == sa.bindparam("account"))
_PUT_TRACK = Upsert(TRACKS)
_DROP_TRACK = sa.delete(TRACKS).where(
    _T.account_id == sa.bindparam("account"), _T.progression_id == sa.bindparam("wanted")
)
_OBJECTIVES = (
    sa.select(OBJECTIVES).where(_O.account_id == sa.bindparam("account")).order_by(_O.objective_id)
)
_ONE_OBJECTIVE = sa.select(OBJECTIVES).where(
    _O.account_id == sa.bindparam("account"), _O.objective_id == sa.bindparam("wanted")
)
_PUT_OBJECTIVE = Upsert(OBJECTIVES, retained=("created_at",))
_DROP_OBJECTIVES = sa.delete(OBJECTIVES).where(_O.account_id == sa.bindparam("account"))
_LAST = sa.select(_L.body_hash, _L.reply, _L.at).where(_L.account_id == sa.bindparam("account"))
_PUT_LAST = Upsert(LAST_GRANTS)
_DROP_LAST = sa.delete(LAST_GRANTS).where(_L.account_id == sa.bindparam("account"))
_CHOSEN = sa.select(_H.progression_id).where(_H.account_id == sa.bindparam("account"))
_CHOOSE = Upsert(HUNT_PASSES)


def configured_paths(folder: str | None, active: str) -> Paths:
    """Return the configured tracks as a dict from id to track; raises BadData."""
    return load(folder, active).paths


@frozen
class SqlProgress:
    """The tables of progression, within one transaction."""

    tx: sa.Connection

    def tracks(self, account_id: AccountId) -> dict[str, Track]:
        rows = self.tx.execute(_TRACKS, {"account": account_id})
        return {
            row.progression_id: Track(
                row.progression_id,
                row.progress,
                row.confirmed_free,
                row.confirmed_premium,
                row.confirmed_at,
            )
            for row in rows
        }

    def put_tracks(self, account_id: AccountId, tracks: Iterable[Track]) -> None:
        """Store the tracks; replace their previous state."""
        rows = [
            {
                "account_id": account_id,
                "progression_id": track.id,
                "progress": track.progress,
                "confirmed_free": track.confirmed_free,
                "confirmed_premium": track.confirmed_premium,
                "confirmed_at": track.confirmed_at,
            }
            for track in tracks
        ]
        _PUT_TRACK.put(self.tx, rows)

    def drop_track(self, account_id: AccountId, track_id: str) -> None:
        self.tx.execute(_DROP_TRACK, {"account": account_id, "wanted": track_id})

    def objectives(self, account_id: AccountId) -> dict[str, Objective]:
        """Return the stored objectives, sorted by id."""
        rows = self.tx.execute(_OBJECTIVES, {"account": account_id})
        return {row.objective_id: _objective(row) for row in rows}

    def objective(self, account_id: AccountId, objective_id: str) -> Objective | None:
        wanted = {"account": account_id, "wanted": objective_id}
        row = self.tx.execute(_ONE_OBJECTIVE, wanted).first()
        return None if row is None else _objective(row)

    def put_objectives(self, account_id: AccountId, changed: Iterable[Objective]) -> None:
        """Store the objectives; replace their previous state."""
        rows = [
            {
                "account_id": account_id,
                "objective_id": objective.id,
                "progress": objective.progress,
                "completed_count": objective.completed_count,
                "created_at": objective.created_at,
                "modified_at": objective.modified_at,
            }
            for objective in changed
        ]
        _PUT_OBJECTIVE.put(self.tx, rows)

    def drop_objectives(self, account_id: AccountId) -> None:
        self.tx.execute(_DROP_OBJECTIVES, {"account": account_id})

    def repeated(
        self, account_id: AccountId, body_hash: str, at: int, window_ms: float
    ) -> bytes | None:
        """Return the reply that ``remember`` stored for the same grant, or None.

        The stored hash must be equal, and the stored time less than ``window_ms`` from ``at``.
        """
        row = self.tx.execute(_LAST, {"account": account_id}).first()
        if row is None or row.body_hash != body_hash or not abs(row.at - at) < window_ms:
            return None
        return bytes(row.reply)

    def remember(self, account_id: AccountId, body_hash: str, reply: bytes, at: int) -> None:
        """Store the hash and the reply of a grant, so that ``repeated`` can return the reply."""
        row = {"account_id": account_id, "body_hash": body_hash, "reply": reply, "at": at}
        _PUT_LAST.put(self.tx, [row])

    def forget(self, account_id: AccountId) -> None:
        """Delete the stored grant, so that ``repeated`` returns None."""
        self.tx.execute(_DROP_LAST, {"account": account_id})

    def hunt_pass(self, account_id: AccountId) -> str | None:
        return self.tx.execute(_CHOSEN, {"account": account_id}).scalar()

    def choose(self, account_id: AccountId, track_id: str) -> None:
        _CHOOSE.put(self.tx, [{"account_id": account_id, "progression_id": track_id}])


def _objective(row: Any) -> Objective:
    return Objective(
        row.objective_id, row.progress, row.completed_count, row.created_at, row.modified_at
    )
