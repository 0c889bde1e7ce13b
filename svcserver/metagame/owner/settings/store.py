"""The table of settings that an owner changed at run time; it takes precedence over env files."""

from collections.abc import Mapping

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert

SETTING_CHANGES = sa.Table(
    "setting_changes",
    METADATA,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.String(1024), nullable=False),
    sa.Column("made_by", sa.String(96), nullable=False),
    sa.Column("made_at", sa.BigInteger, nullable=False),  # epoch milliseconds
)
_ALL = sa.select(SETTING_CHANGES.c.name, SETTING_CHANGES.c.value)
_PUT = Upsert(SETTING_CHANGES)
_DROP = sa.delete(SETTING_CHANGES).where(SETTING_CHANGES.c.name == sa.bindparam("wanted"))


@frozen
class SqlSettings:
    """The table of changed settings, within one open transaction."""

    tx: sa.Connection

    def all(self) -> Mapping[str, str]:
        """Return the changed variables and their values."""
        return {row.name: row.value for row in self.tx.execute(_ALL)}

    def put(self, name: str, value: str, by: str, at: float) -> None:
        """Store the changed value of a setting; ``at`` is in epoch seconds."""
        row = {"name": name, "value": value, "made_by": by, "made_at": round(at * 1000)}
        _PUT.put(self.tx, [row])

    def drop(self, name: str) -> None:
        """Delete the stored value of a setting, if there is one."""
        self.tx.execute(_DROP, {"wanted": name})
