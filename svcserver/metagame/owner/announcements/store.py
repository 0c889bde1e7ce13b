"""The table of the announcement."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import BigInteger, Column, Connection, String, Table

from svcserver.db.one_row import OneRow, the_one
from svcserver.db.tables import METADATA
from svcserver.metagame.owner.announcements.rules import Announcement

ANNOUNCEMENTS = Table(
    "announcements",
    METADATA,
    the_one(),
    Column("text", String(256), nullable=False),
    Column("made_by", String(96), nullable=False),
    Column("made_at", BigInteger, nullable=False),  # epoch milliseconds, as the next two
    Column("ends_at", BigInteger, nullable=False),
    Column("restart_at", BigInteger, nullable=True),
)
_KEPT = OneRow(ANNOUNCEMENTS)


@frozen
class SqlAnnouncement:
    """The announcement in an open transaction."""

    tx: Connection

    def get(self, now: float) -> Announcement | None:
        """What is announced at that time (epoch seconds)."""
        row = _KEPT.get(self.tx)
        if row is None:
            return None
        found = Announcement(row.text, row.made_by, row.made_at, row.ends_at, row.restart_at)
        return found if found.holds(now) else None

    def put(self, one: Announcement | None) -> None:
        """Replace what is announced; None ends it."""
        if one is None:
            _KEPT.put(self.tx, None)
            return
        row = {
            "text": one.text,
            "made_by": one.made_by,
            "made_at": one.made_at,
            "ends_at": one.ends_at,
            "restart_at": one.restart_at,
        }
        _KEPT.put(self.tx, row)
