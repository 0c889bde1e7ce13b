"""The table of maintenance mode, which has one row while the mode is on, even after a crash."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import BigInteger, Column, Connection, String, Table

from svcserver.db.one_row import OneRow, the_one
from svcserver.db.tables import METADATA
from svcserver.metagame.play.drain import Drain, Then, Until

MAINTENANCE = Table(
    "maintenance",
    METADATA,
    the_one(),
    Column("made_by", String(96), nullable=False),
    Column("made_at", BigInteger, nullable=False),  # epoch milliseconds
    Column("then_act", String(16), nullable=False),
    Column("wait_until", String(16), nullable=False),
    Column("reason", String(256), nullable=False),
)
_KEPT = OneRow(MAINTENANCE)


@frozen
class SqlMaintenance:
    """The table of maintenance mode, within one open transaction."""

    tx: Connection

    def get(self) -> Drain | None:
        """Return the stored mode, or None if it is off."""
        row = _KEPT.get(self.tx)
        if row is None:
            return None
        then, until = Then(row.then_act), Until(row.wait_until)
        return Drain(row.made_by, row.made_at / 1000, then, until, row.reason)

    def put(self, drain: Drain | None) -> None:
        """Store the mode, with ``since`` rounded to milliseconds; None deletes it."""
        if drain is None:
            _KEPT.put(self.tx, None)
            return
        row = {
            "made_by": drain.by,
            "made_at": round(drain.since * 1000),
            "then_act": drain.then.value,
            "wait_until": drain.until.value,
            "reason": drain.reason,
        }
        _KEPT.put(self.tx, row)
