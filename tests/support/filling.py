"""Fills every table of a database with one made-up row, whatever its columns are."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, MetaData, insert, select
from sqlalchemy.types import Boolean, Float, Integer, LargeBinary, Numeric


def fill(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Insert a row into each table, parents first; what each table then holds."""
    tables = MetaData()
    tables.reflect(engine)
    held = {}
    with engine.begin() as tx:
        for table in tables.sorted_tables:
            if table.name == "alembic_version":
                continue
            row = {column.name: _value(column) for column in table.columns}
            tx.execute(insert(table), row)
            held[table.name] = sorted(tuple(row) for row in tx.execute(select(table)).all())
    return held


def _value(column: Any) -> Any:
    if column.foreign_keys:
        [reference] = column.foreign_keys
        column = reference.column
    if isinstance(column.type, LargeBinary):
        return b"{}"
    if isinstance(column.type, Boolean):
        return True
    if isinstance(column.type, Integer):
        return 1
    if isinstance(column.type, Float | Numeric):
        return 1.5
    return f"{column.name}-1"[: getattr(column.type, "length", None) or 64]
