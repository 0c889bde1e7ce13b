"""Inserts a row, or overwrites the one that has its primary key: one statement for both."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from attrs import frozen
from sqlalchemy import Connection, Table, func
from sqlalchemy.dialects import postgresql, sqlite

_DIALECTS: Mapping[str, Any] = {"sqlite": sqlite, "postgresql": postgresql}


@frozen
class Upsert:
    """Prebuilt for both back-ends; ``put`` takes rows by column names."""

    statements: Mapping[str, Any]

    @classmethod
    def into(
        cls, table: Table, *, kept: Collection[str] = (), kept_for_null: Collection[str] = ()
    ) -> Upsert:
        """For ``table``. An existing row keeps its ``kept`` columns.

        It also keeps those of ``kept_for_null`` for which None is put.
        """
        return cls({name: _of(one, table, kept, kept_for_null) for name, one in _DIALECTS.items()})

    def put(self, tx: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """Insert or overwrite each row; every row has the same columns."""
        if found := list(rows):
            tx.execute(self.statements[tx.dialect.name], found)


def _of(dialect: Any, table: Table, kept: Collection[str], kept_for_null: Collection[str]) -> Any:
    put, keys = dialect.insert(table), list(table.primary_key)
    changed: dict[str, Any] = {
        one.name: func.coalesce(put.excluded[one.name], one)
        if one.name in kept_for_null
        else put.excluded[one.name]
        for one in table.c
        if one not in keys and one.name not in kept
    }
    return put.on_conflict_do_update(index_elements=keys, set_=changed)
