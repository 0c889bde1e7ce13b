"""A helper that inserts one made-up row into every table of a database."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, MetaData, Table, insert, select
from sqlalchemy.types import Boolean, Float, Integer, LargeBinary, Numeric


def fill(
    engine: Engine, tables: MetaData | None = None, number: int = 1
) -> dict[str, list[tuple[Any, ...]]]:
    """Insert a row into each table, and return the contents of each table.

    A table is filled after the tables that its rows refer to. ``tables`` is the result of
    ``shape``, if the caller already has it. Rows with a different ``number`` have different keys.
    """
    held = {}
    with engine.begin() as tx:
        for table, row in rows(tables or shape(engine), number):
            tx.execute(insert(table), row)
            held[table.name] = sorted(tuple(row) for row in tx.execute(select(table)).all())
    return held


def shape(engine: Engine) -> MetaData:
    """Return the tables that the database has now."""
    tables = MetaData()
    tables.reflect(engine)
    return tables


def rows(tables: MetaData, number: int = 1) -> Iterator[tuple[Table, dict[str, Any]]]:
    """Return a row for each table, with a value for every existing column.

    A table comes after the tables that its row refers to.
    """
    for table in tables.sorted_tables:
        if table.name != "alembic_version":
            yield table, {column.name: _value(column, number) for column in table.columns}


def _value(column: Any, number: int) -> Any:
    if column.foreign_keys:
        [reference] = column.foreign_keys
        column = reference.column
    if isinstance(column.type, LargeBinary):
        return b"{}"
    if isinstance(column.type, Boolean):
        return True
    if isinstance(column.type, Integer):
        return number
    if isinstance(column.type, Float | Numeric):
        return 1.5
    length = getattr(column.type, "length", None) or 64
    return f"{column.name[: length - 3]}-{number}"
