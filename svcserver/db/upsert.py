"""Statements that insert a row, or overwrite the one with its primary key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from attrs import field, frozen
from sqlalchemy import Column, Connection, Table, case, func


@frozen
class Upsert:
    """Statements that insert or overwrite rows of ``table``, built once for each back-end.

    An existing row retains its columns ``retained``, and those of ``retained_for_null`` for which
    None is put. Values for the columns of ``added`` are added to the stored ones; the columns of
    ``highest`` take the higher value.
    """

    table: Table
    retained: Collection[str] = field(default=(), kw_only=True)
    retained_for_null: Collection[str] = field(default=(), kw_only=True)
    added: Collection[str] = field(default=(), kw_only=True)
    highest: Collection[str] = field(default=(), kw_only=True)
    _statements: dict[str, Any] = field(factory=dict, init=False, repr=False)

    def put(self, tx: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert or overwrite each row; every row has the same columns."""
        listed = rows if type(rows) is list else list(rows)
        if listed:
            tx.execute(self.statement(tx.dialect.name), listed)

    def statement(self, dialect: str) -> Any:
        """Return the statement for a back-end, always the same object: caches know it by that."""
        made = self._statements.get(dialect)
        return made if made is not None else self._statements.setdefault(dialect, self._of(dialect))

    def _of(self, dialect: str) -> Any:
        put, keys = _insert(dialect)(self.table), list(self.table.primary_key)
        changed: dict[str, Any] = {
            column.name: self._changed(column, put.excluded[column.name])
            for column in self.table.c
            if column not in keys and column.name not in self.retained
        }
        return put.on_conflict_do_update(index_elements=keys, set_=changed)

    def _changed(self, there: Column[Any], put: Any) -> Any:
        """Return the new value of a column of an existing row."""
        if there.name in self.retained_for_null:
            return func.coalesce(put, there)
        if there.name in self.added:
            return there + put
        return case((put > there, put), else_=there) if there.name in self.highest else put


def _insert(dialect: str) -> Callable[[Table], Any]:
    """Return the back-end's own INSERT; each takes megabytes to import, and a host needs one."""
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert

        return insert
    from sqlalchemy.dialects.postgresql import insert as insert_there

    return insert_there
