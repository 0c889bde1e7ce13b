"""The command ``svcctl db copy``: copies a database between SQLite and PostgreSQL."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click
import sqlalchemy as sa
from attrs import frozen
from sqlalchemy.engine import URL

from svcserver.ctl import database
from svcserver.ctl.database_commands import db, migrate
from svcserver.ctl.host import Host, as_owner_of
from svcserver.ctl.output import Out, fail
from svcserver.db.engine import database_url, make_engine

ROWS = 200  # rows in memory at a time; a save can have hundreds of kilobytes
REVISION = "alembic_version"


@db.command("copy")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def copy(source: str, target: str, as_json: bool) -> None:
    """Copy a database between SQLite and PostgreSQL.

    SOURCE and TARGET are database URLs, or env files with a DATABASE_URL. Use a file if the URL has
    a password: every user can see the command line. TARGET must be empty. Stop the stack first, or
    TARGET may lack recent changes.
    """
    out = Out(as_json)
    urls = place(source, "SOURCE"), place(target, "TARGET")
    folders = [file.parent for url in urls if (file := database.file_of(url)) is not None]
    with ExitStack() as owners:
        for folder in folders:
            owners.enter_context(as_owner_of(folder))
        counts = copy_all(*urls)
    rows = sum(counts.values())
    out.data({"tables": counts, "rows": rows})
    out.table(["table", "rows"], [[name, str(count)] for name, count in counts.items()])
    out.text(f"{rows} rows copied and counted; now set DATABASE_URL in metagame.env to TARGET")


def place(words: str, name: str) -> URL:
    """Return the database URL in ``words``, which is a URL or the path of an env file.

    An error message never contains the URL, because the URL may contain a password.
    """
    if "://" not in words:
        file = Path(words)
        url = database.url_of(Host(None, file))
        path = database.file_of(url)
        return url if path is None else url.set(database=str(file.parent / path))
    try:
        return database_url(words)
    except ValueError as why:
        fail(f"{name} {why}")


def copy_all(source: URL, target: URL) -> dict[str, int]:
    """Copy all rows in one transaction on ``target``; return the number of rows per table."""
    if source == target:
        fail("SOURCE and TARGET are the same database. Give another database as TARGET.")
    _must_be_empty(target)
    with database.snapshot(database.existing(source)) as old:
        before = _Known.reflect_tables(old)
        if before.revision is None:
            fail(
                "SOURCE is not the database of a host. For SOURCE, give the path of the host's"
                " metagame.env, or the DATABASE_URL in that file."
            )
        migrate(target)
        with database.transaction(make_engine(target)) as new:
            after = _Known.reflect_tables(new)
            if before.revision != after.revision:
                fail(
                    "SOURCE is a database of another svcserver version. Upgrade SOURCE with svcctl"
                    " db upgrade if it is older; otherwise install the newer svcserver."
                )
            return _fill(old, before, new, after)


def _must_be_empty(target: URL) -> None:
    file = database.file_of(target)
    if file is not None and not file.exists():
        return
    with database.snapshot(make_engine(target)) as tx:
        for table in _Known.reflect_tables(tx).tables:
            if _count(tx, table):
                fail(
                    f"TARGET is not empty: the table {table.name} already contains rows. "
                    "Give a new or empty database as TARGET."
                )


@frozen
class _Known:
    """The schema revision and tables of a database."""

    revision: str | None
    tables: list[sa.Table]  # tables that others reference come first

    @classmethod
    def reflect_tables(cls, tx: sa.Connection) -> _Known:
        metadata = sa.MetaData()
        metadata.reflect(tx)
        tables = [table for table in metadata.sorted_tables if table.name != REVISION]
        if REVISION not in metadata.tables:
            return cls(None, tables)
        return cls(tx.execute(sa.text(f"SELECT version_num FROM {REVISION}")).scalar(), tables)  # noqa: S608


def _fill(old: sa.Connection, before: _Known, new: sa.Connection, after: _Known) -> dict[str, int]:
    targets = {table.name: table for table in after.tables}
    unknown = [table.name for table in before.tables if table.name not in targets]
    if unknown:
        fail(
            "Nothing was copied, because this svcserver version does not know the table"
            f" {unknown[0]} in SOURCE. If you do not need the table, drop it from SOURCE."
            " Then run the command again."
        )
    sources = {table.name: table for table in before.tables}
    counts = {}
    for table in after.tables:  # referenced tables come first
        if table.name in sources:
            counts[str(table.name)] = _rows(old, sources[table.name], new, table)
    for table in after.tables:
        _number_on(new, table)
    return dict(sorted(counts.items()))


def _rows(old: sa.Connection, source: sa.Table, new: sa.Connection, target: sa.Table) -> int:
    result = old.execute(sa.select(source).execution_options(yield_per=ROWS))
    for part in result.mappings().partitions(ROWS):
        new.execute(sa.insert(target), [dict(row) for row in part])
    expected, count = _count(old, source), _count(new, target)
    if expected != count:
        fail(
            f"the copy was undone, because the table {target.name} has {count} rows in TARGET and"
            f" {expected} rows in SOURCE. Stop the host, then run the command again."
        )
    return count


def _count(tx: sa.Connection, table: sa.Table) -> int:
    return int(tx.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def _number_on(tx: sa.Connection, table: sa.Table) -> None:
    """Set the PostgreSQL sequence of a table's primary key to the highest copied value."""
    key = list(table.primary_key.columns)
    if tx.dialect.name == "sqlite" or len(key) != 1:
        return
    where = {"table": f'"{table.name}"', "column": key[0].name}
    find = sa.text("SELECT pg_get_serial_sequence(:table, :column)")
    sequence = tx.execute(find, where).scalar()
    if sequence is not None:
        highest = tx.execute(sa.select(sa.func.max(key[0]))).scalar()
        tx.execute(sa.select(sa.func.setval(sequence, highest or 1, highest is not None)))
