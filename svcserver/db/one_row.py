"""Tables with at most one row, for settings and states of the whole server."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

_THE_ONE = 1


def the_one() -> sa.Column[int]:
    """Return a new primary-key column for a one-row table."""
    return sa.Column("id", sa.Integer, primary_key=True)


class OneRow:
    """The single row of ``table``; the table's primary key is a column made by ``the_one``."""

    def __init__(self, table: sa.Table) -> None:
        is_wanted = table.c.id == sa.bindparam("wanted")
        self._get, self._add = sa.select(table).where(is_wanted), sa.insert(table)
        self._drop = sa.delete(table).where(is_wanted)

    def get(self, tx: sa.Connection) -> sa.Row[Any] | None:
        """Return the row, or None if it was never set or has been cleared."""
        return tx.execute(self._get, {"wanted": _THE_ONE}).first()

    def put(self, tx: sa.Connection, row: Mapping[str, Any] | None) -> None:
        """Replace the stored row by ``row``; None deletes the stored row.

        ``row`` maps column names to values, without the primary key.
        """
        tx.execute(self._drop, {"wanted": _THE_ONE})
        if row is not None:
            tx.execute(self._add, {"id": _THE_ONE, **row})
