"""The table of breadcrumbs; the list is stored as sent."""

from __future__ import annotations

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    LargeBinary,
    String,
    Table,
    bindparam,
    select,
)

from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import CharacterId

BREADCRUMBS = Table(
    "breadcrumbs",
    METADATA,
    Column("character_id", String(64), primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
_B = BREADCRUMBS.c
_FIND = select(_B.version, _B.data).where(_B.character_id == bindparam("character"))
_PUT = Upsert.into(BREADCRUMBS)


@frozen
class SqlBreadcrumbs:
    """Breadcrumbs on an open transaction."""

    tx: Connection

    def find(self, character_id: CharacterId) -> tuple[int, bytes] | None:
        """The version and the JSON text of the list."""
        row = self.tx.execute(_FIND, {"character": character_id}).first()
        return None if row is None else (row.version, bytes(row.data))

    def keep(self, character_id: CharacterId, version: int, data: bytes) -> None:
        row = {"character_id": character_id, "version": version, "data": data}
        _PUT.put(self.tx, [row])
