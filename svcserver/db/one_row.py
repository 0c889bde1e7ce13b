"""Tables with at most one row, for settings and states of the whole server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, Connection, Integer, Row, Table, bindparam, delete, insert, select

_THE_ONE = 1


def the_one() -> Column[int]:
    """Return the primary-key column of a one-row table; each table needs a new column object."""
    return Column("id", Integer, primary_key=True)


class OneRow:
    """The single row of ``table``, whose primary key is ``the_one()``."""

    def __init__(self, table: Table) -> None:
        is_wanted = table.c.id == bindparam("wanted")
        self._get, self._add = select(table).where(is_wanted), insert(table)
        self._drop = delete(table).where(is_wanted)

    def get(self, tx: Connection) -> Row[Any] | None:
        """Return the row, or None if it was never set or has been cleared."""
        return tx.execute(self._get, {"wanted": _THE_ONE}).first()

    def put(self, tx: Connection, row: Mapping[str, Any] | None) -> None:
        """Replace the row by ``row`` (values by column, without the key); None deletes the row."""
        tx.execute(self._drop, {"wanted": _THE_ONE})
        if row is not None:
            tx.execute(self._add, {"id": _THE_ONE, **row})
