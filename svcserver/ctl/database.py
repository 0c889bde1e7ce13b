"""Access to the database beside a running metagame, in short transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL

from svcserver.ctl.host import Host
from svcserver.ctl.output import fail
from svcserver.db.engine import (
    DEFAULT_URL,
    SQLAlchemyError,
    database_url,
    describe,
    make_engine,
)
from svcserver.db.transaction import transact as one_transact
from svcserver.db.transaction import transaction as one_transaction

T = TypeVar("T")

# of a restored host whose backup did not hold its own: no service begins a new database by it
UNNAMED = "postgresql://USER:PASSWORD@HOST/NAME"
WAIT_MS = 30_000  # how long a command waits for the metagame's writer


def url_of(host: Host) -> URL:
    """DATABASE_URL, with a relative file name resolved in the metagame's working directory."""
    named = host.variables("metagame").get("DATABASE_URL", "") or DEFAULT_URL
    if named == UNNAMED:
        fail(f"{host.name_of('metagame')}: DATABASE_URL is still {UNNAMED}; write your own there")
    try:
        url = database_url(named)
    except ValueError as why:
        fail(f"{host.name_of('metagame')}: DATABASE_URL {why}")
    file = file_of(url)
    return url if file is None else url.set(database=str(host.path(str(file))))


def file_of(url: URL) -> Path | None:
    """The file of an SQLite database; None for a server and for one in memory."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return Path(url.database)


def existing(url: URL) -> Engine:
    """An engine for an existing database: a mistyped name must not create an empty one."""
    file = file_of(url)
    if file is not None and not file.is_file():
        fail(f"there is no database {file}; make it with svcctl db upgrade")
    return make_engine(url)


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """A short transaction; a database error fails with one line."""
    with _one_line(engine), one_transaction(engine, WAIT_MS) as tx:
        yield tx


def know_every_table() -> None:
    """Let all features say which tables they have, for what reads or deletes across all."""
    import svcserver.metagame.service  # noqa: F401 - costs a second, which few commands need


def transact(host: Host, work: Callable[[Connection], T], wait_ms: int | None = None) -> T:
    """Run ``work(tx)`` on the host's database and return its result; it may run twice.

    ``wait_ms``: how long to wait for another writer; None for as long as any command waits.
    """
    engine = existing(url_of(host))
    with _one_line(engine):
        return one_transact(engine, work, WAIT_MS if wait_ms is None else wait_ms)


@contextmanager
def _one_line(engine: Engine) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as why:
        fail(f"the database cannot be used: {describe(why)}; look with svcctl db check")
    finally:
        engine.dispose()
