"""Inserts a row, or overwrites the one that has its primary key: one statement for both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from attrs import field, frozen
from sqlalchemy import Column, Connection, Table, case, func


@frozen
class Upsert:
    """Built once for the back-end it is first used on; ``put`` takes rows by column names.

    The others are names of columns; see ``into``.
    """

    table: Table
    kept: Collection[str]
    kept_for_null: Collection[str]
    added: Collection[str] = ()
    highest: Collection[str] = ()
    _statements: dict[str, Any] = field(factory=dict, init=False, repr=False)

    @classmethod
    def into(
        cls,
        table: Table,
        *,
        kept: Collection[str] = (),
        kept_for_null: Collection[str] = (),
        added: Collection[str] = (),
        highest: Collection[str] = (),
    ) -> Upsert:
        """For ``table``. An existing row keeps its ``kept`` columns.

        It also keeps those of ``kept_for_null`` for which None is put. What is put into the
        columns of ``added`` is added to what is there, and in those of ``highest`` the higher
        of both stays.
        """
        return cls(table, kept, kept_for_null, added, highest)

    def put(self, tx: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert or overwrite each row; every row has the same columns."""
        found = rows if type(rows) is list else list(rows)
        if found:
            tx.execute(self.statement(tx.dialect.name), found)

    def statement(self, dialect: str) -> Any:
        """The one statement for a back-end: what is known of it is known by its identity."""
        made = self._statements.get(dialect)
        return made if made is not None else self._statements.setdefault(dialect, self._of(dialect))

    def _of(self, dialect: str) -> Any:
        put, keys = _insert(dialect)(self.table), list(self.table.primary_key)
        changed: dict[str, Any] = {
            one.name: self._changed(one, put.excluded[one.name])
            for one in self.table.c
            if one not in keys and one.name not in self.kept
        }
        return put.on_conflict_do_update(index_elements=keys, set_=changed)

    def _changed(self, there: Column[Any], put: Any) -> Any:
        """What a column of an existing row becomes."""
        if there.name in self.kept_for_null:
            return func.coalesce(put, there)
        if there.name in self.added:
            return there + put
        return case((put > there, put), else_=there) if there.name in self.highest else put


def _insert(dialect: str) -> Callable[[Table], Any]:
    """The back-end's own INSERT; each takes megabytes to import, and a host has one of them."""
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert

        return insert
    from sqlalchemy.dialects.postgresql import insert as insert_there

    return insert_there
