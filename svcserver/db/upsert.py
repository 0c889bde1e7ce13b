"""Statements that insert a row or overwrite the row with the same primary key."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from attrs import field, frozen


@frozen
class Upsert:
    """Statements that insert or overwrite rows of ``table``, built once for each back-end.

    An existing row keeps its values in the columns ``retained``. It also keeps its values in the
    columns ``retained_for_null`` if the new value is None. In the columns ``added``, the new value
    is added to the stored one. In the columns ``highest``, the higher value wins.
    """

    table: sa.Table
    retained: Collection[str] = field(default=(), kw_only=True)
    retained_for_null: Collection[str] = field(default=(), kw_only=True)
    added: Collection[str] = field(default=(), kw_only=True)
    highest: Collection[str] = field(default=(), kw_only=True)
    _statements: dict[str, Any] = field(factory=dict, init=False, repr=False)

    def put(self, tx: sa.Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert or overwrite each row; all rows must have the same columns."""
        listed = rows if type(rows) is list else list(rows)
        if listed:
            tx.execute(self.statement(tx.dialect.name), listed)

    def statement(self, dialect: str) -> Any:
        """Return the statement for a back-end.

        The same object is returned each time, because caches compare statements by identity.
        """
        made = self._statements.get(dialect)
        return (
            made
            if made is not None
            else self._statements.setdefault(dialect, self._build_insert(dialect))
        )

    def _build_insert(self, dialect: str) -> Any:
        put, keys = _insert(dialect)(self.table), list(self.table.primary_key)
        changed: dict[str, Any] = {
            column.name: self._changed(column, put.excluded[column.name])
            for column in self.table.c
            if column not in keys and column.name not in self.retained
        }
        return put.on_conflict_do_update(index_elements=keys, set_=changed)

    def _changed(self, there: sa.Column[Any], put: Any) -> Any:
        """Return the SQL that an upsert of the value ``put`` stores in the column ``there``."""
        if there.name in self.retained_for_null:
            return sa.func.coalesce(put, there)
        if there.name in self.added:
            return there + put
        return sa.case((put > there, put), else_=there) if there.name in self.highest else put


def _insert(dialect: str) -> Callable[[sa.Table], Any]:
    """Return SQLAlchemy's INSERT for this back-end.

    Only the back-end that is used is imported, because each takes megabytes of memory.
    """
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert

        return insert
    from sqlalchemy.dialects.postgresql import insert as insert_there

    return insert_there
