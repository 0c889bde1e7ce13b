"""The table of maintenance mode, which has one row while the mode is on."""

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.one_row import OneRow, the_one
from svcserver.db.tables import METADATA
from svcserver.metagame.play.drain import Drain, Then, Until

MAINTENANCE = sa.Table(
    "maintenance",
    METADATA,
    the_one(),
    sa.Column("made_by", sa.String(96), nullable=False),
    sa.Column("made_at", sa.BigInteger, nullable=False),  # epoch milliseconds
    sa.Column("then_act", sa.String(16), nullable=False),
    sa.Column("wait_until", sa.String(16), nullable=False),
    sa.Column("reason", sa.String(256), nullable=False),
)
_STORED = OneRow(MAINTENANCE)


@frozen
class SqlMaintenance:
    """The table of maintenance mode, within one open transaction."""

    tx: sa.Connection

    def get(self) -> Drain | None:
        """Return the stored mode, or None if it is off."""
        row = _STORED.get(self.tx)
        if row is None:
            return None
        then, until = Then(row.then_act), Until(row.wait_until)
        return Drain(row.made_by, row.made_at / 1000, then, until, row.reason)

    def put(self, drain: Drain | None) -> None:
        """Store the mode; if it is None, delete the stored mode.

        The time ``since`` is rounded to milliseconds.
        """
        if drain is None:
            _STORED.put(self.tx, None)
            return
        row = {
            "made_by": drain.by,
            "made_at": round(drain.since * 1000),
            "then_act": drain.then.value,
            "wait_until": drain.until.value,
            "reason": drain.reason,
        }
        _STORED.put(self.tx, row)
