"""A table that holds one row or none: a state of the whole server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen
from sqlalchemy import (
    Column,
    Connection,
    Delete,
    Insert,
    Integer,
    Row,
    Select,
    Table,
    bindparam,
    delete,
    insert,
    select,
)

_THE_ONE = 1


def the_one() -> Column[int]:
    """The primary key of such a table; a column of its own for each."""
    return Column("id", Integer, primary_key=True)


@frozen
class OneRow:
    """Reads and replaces the row of ``table``, whose primary key is ``the_one()``."""

    table: Table
    _get: Select[Any] = field(init=False)
    _drop: Delete = field(init=False)
    _add: Insert = field(init=False)

    @_get.default
    def _select(self) -> Select[Any]:
        return select(self.table).where(self.table.c.id == bindparam("wanted"))

    @_drop.default
    def _delete(self) -> Delete:
        return delete(self.table).where(self.table.c.id == bindparam("wanted"))

    @_add.default
    def _insert(self) -> Insert:
        return insert(self.table)

    def get(self, tx: Connection) -> Row[Any] | None:
        """The state as it stands; None where nobody has set it yet, or it was cleared."""
        return tx.execute(self._get, {"wanted": _THE_ONE}).first()

    def put(self, tx: Connection, row: Mapping[str, Any] | None) -> None:
        """Replace it by ``row``, columns by name without the key; None leaves no row."""
        tx.execute(self._drop, {"wanted": _THE_ONE})
        if row is not None:
            tx.execute(self._add, {"id": _THE_ONE, **row})
