"""The table of the announcement, and what making one does, for dashboard and ``svcctl``."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    String,
    Table,
    bindparam,
    delete,
    insert,
    select,
)

from svcserver.db.tables import METADATA
from svcserver.metagame.accounts.audit import Act, Trace
from svcserver.metagame.owner.announcements import rules
from svcserver.metagame.owner.announcements.rules import Announcement, Wish

ANNOUNCEMENTS = Table(
    "announcements",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("text", String(256), nullable=False),
    Column("made_by", String(96), nullable=False),
    Column("made_at", BigInteger, nullable=False),  # epoch milliseconds, as the next two
    Column("ends_at", BigInteger, nullable=False),
    Column("restart_at", BigInteger, nullable=True),
)
THE_ONE = 1
_A = ANNOUNCEMENTS.c
_GET = select(ANNOUNCEMENTS).where(_A.id == bindparam("wanted"))
_DROP = delete(ANNOUNCEMENTS).where(_A.id == bindparam("wanted"))
_ADD = insert(ANNOUNCEMENTS)


@frozen
class SqlAnnouncement:
    """The announcement in an open transaction."""

    tx: Connection

    def get(self, now: float) -> Announcement | None:
        """What is announced at that time (epoch seconds)."""
        row = self.tx.execute(_GET, {"wanted": THE_ONE}).first()
        if row is None:
            return None
        found = Announcement(row.text, row.made_by, row.made_at, row.ends_at, row.restart_at)
        return found if found.holds(now) else None

    def put(self, one: Announcement | None) -> None:
        """Replace what is announced; None ends it."""
        self.tx.execute(_DROP, {"wanted": THE_ONE})
        if one is not None:
            row = {
                "id": THE_ONE,
                "text": one.text,
                "made_by": one.made_by,
                "made_at": one.made_at,
                "ends_at": one.ends_at,
                "restart_at": one.restart_at,
            }
            self.tx.execute(_ADD, row)


def announce(asked: Wish | None, by: str, now: Callable[[], float]) -> Act[Announcement | None]:
    """The act of announcing; None ends the announcement."""

    def act(tx: Connection, trace: Trace) -> Announcement | None:
        at, kept = now(), SqlAnnouncement(tx)
        trace.before = rules.described(kept.get(at))
        made = None if asked is None else rules.announced(asked, by, at)
        kept.put(made)
        trace.after = rules.described(made)
        return made

    return act
