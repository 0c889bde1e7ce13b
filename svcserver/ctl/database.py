"""Access to the database in short transactions, so that a running metagame is not blocked."""

import os
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
    is_sqlite,
    make_engine,
)
from svcserver.db.faults import cure_of
from svcserver.db.transaction import transact as one_transact
from svcserver.db.transaction import transaction as one_transaction

T = TypeVar("T")

# the placeholder that a restore writes if the backup has no URL; no service accepts it
UNNAMED = "postgresql://USER:PASSWORD@HOST/NAME"
WAIT_MS = 30_000  # how long a command waits while the metagame writes


def url_of(host: Host) -> URL:
    """Return DATABASE_URL; a relative file is resolved in the metagame's working directory."""
    named = host.variables("metagame").get("DATABASE_URL", "") or DEFAULT_URL
    if named == UNNAMED:
        fail(
            f"{host.name_of('metagame')}: DATABASE_URL is still {UNNAMED}; "
            "replace the placeholder with the URL of your database"
        )
    try:
        url = database_url(named)
    except ValueError as why:
        fail(f"{host.name_of('metagame')}: DATABASE_URL {why}")
    file = file_of(url)
    return url if file is None else url.set(database=str(host.path(str(file))))


def file_of(url: URL) -> Path | None:
    """Return the file of an SQLite database; None for PostgreSQL or an in-memory database."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    return Path(url.database)


def existing(url: URL) -> Engine:
    """Return an engine for an existing database; raises Failed if an SQLite file is missing."""
    file = file_of(url)
    return make_engine(url if file is None else url.set(database=str(existing_file(file))))


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Run a short transaction; raises Failed for a database error."""
    with _one_line(engine), one_transaction(engine, WAIT_MS) as tx:
        yield tx


@contextmanager
def snapshot(engine: Engine) -> Iterator[Connection]:
    """Open a connection that reads one snapshot of the whole database; raises Failed."""
    try:
        if is_sqlite(engine):
            with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
                tx.exec_driver_sql("BEGIN")
                yield tx
                tx.exec_driver_sql("ROLLBACK")
        else:
            with engine.connect().execution_options(isolation_level="REPEATABLE READ") as tx:
                yield tx
    except SQLAlchemyError as why:
        fail(f"the database cannot be read: {describe(why)}")
    finally:
        engine.dispose()


def missing(file: Path) -> tuple[str, str]:
    """Return two texts about a missing database file: the error message, and how to fix it."""
    if file.is_symlink():
        return (
            f"there is no database {file}: it is a link to {os.readlink(file)}, "
            "which does not exist",
            "is the disk of that file mounted?",
        )
    if not file.parent.is_dir():
        return (
            f"there is no database {file}: there is no folder {file.parent}",
            "is its disk mounted? If so, correct DATABASE_URL",
        )
    return (
        f"there is no database {file}",
        "correct DATABASE_URL, or restore a backup; a host that had no players gets an empty one "
        "with svcctl db upgrade",
    )


def existing_file(file: Path) -> Path:
    """Return ``file``; raises Failed if it is missing or not accessible."""
    try:
        file.stat()
    except FileNotFoundError:
        fail("; ".join(missing(file)))
    except OSError as why:
        hindrance = obstacle(file)
        fail("; ".join(hindrance or (f"{file}: {why.strerror}", "check its folder")))
    if not file.is_file():
        fail(f"{file} is not a file. Correct DATABASE_URL.")
    return file


def obstacle(file: Path) -> tuple[str, str] | None:
    """Return why this user cannot use an SQLite database, and how to fix that; None if all is well.

    SQLite's own messages are too vague: "unable to open database file", or "disk I/O error".
    """
    folder = file.parent
    beside = [file.with_name(f"{file.name}{end}") for end in ("-wal", "-shm", "-journal")]
    if os.name != "posix":
        return None
    try:
        disk = os.statvfs(folder)
        for path in (folder, file, *filter(os.path.lexists, beside)):
            wanted = os.R_OK | os.W_OK | (os.X_OK if path == folder else 0)
            if disk.f_flag & os.ST_RDONLY:
                return f"the disk of {path} is mounted read-only", "mount it for writing"
            if not os.access(path, wanted):
                return _not_ours(path, folder)
    except OSError as why:
        return f"{file} cannot be accessed: {why.strerror}", "check its folder and its disk"
    if not disk.f_bavail:
        return f"the disk of {file} is full", "make room there"
    return None


def _not_ours(path: Path, folder: Path) -> tuple[str, str]:
    """Return two texts about missing access to ``path``: the error message, and how to fix it."""
    status, home = path.stat(), folder.stat()
    what = f"{user_name(os.geteuid())} may not read and write {path} of {user_name(status.st_uid)}"
    if status.st_uid not in (os.geteuid(), home.st_uid):
        return what, f"give it to the owner of its folder: chown {user_name(home.st_uid)} {path}"
    if status.st_uid == os.geteuid():
        return what, f"chmod u+rw{'x' if path == folder else ''} {path}"
    return what, f"run this as {user_name(status.st_uid)}"


def user_name(uid: int) -> str:
    """Return the name of a user id, or the number if the user has no name."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def know_every_table() -> None:
    """Import all features, so that SQLAlchemy knows every table."""
    import svcserver.metagame.service  # noqa: F401 - costs a second, which few commands need


def transact(host: Host, work: Callable[[Connection], T], wait_ms: int | None = None) -> T:
    """Run ``work(tx)`` on the host's database and return its result.

    ``work`` may run more than once. ``wait_ms`` limits the wait for another writer; None means
    ``WAIT_MS``.
    """
    engine = existing(url_of(host))
    with _one_line(engine):
        return one_transact(engine, work, WAIT_MS if wait_ms is None else wait_ms)


@contextmanager
def _one_line(engine: Engine) -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as why:
        file = file_of(engine.url)
        hindrance = obstacle(file) if file is not None else None
        if hindrance is not None:
            fail("; ".join(hindrance))
        cure = cure_of(why) or "run svcctl db check"
        fail(f"the database cannot be used: {describe(why)}; {cure}")
    finally:
        engine.dispose()
