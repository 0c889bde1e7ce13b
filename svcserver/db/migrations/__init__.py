"""The migrations, which run at startup, before the first request. Spec: 1 §9.

They only add tables, columns, indexes and triggers.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path
from threading import active_count

from sqlalchemy import Connection, Engine, inspect, text
from twisted.logger import Logger

from svcserver.db.engine import BadDatabase, SQLAlchemyError, describe, is_sqlite
from svcserver.db.faults import cure_of
from svcserver.db.migrations import revisions
from svcserver.db.suitable import refuse_unsuitable
from svcserver.db.tables import METADATA
from svcserver.db.transaction import transaction

log = Logger()

LOOKED_THROUGH = 1 << 30  # bytes; a larger file is checked only by svcctl db check, to start fast
RESTORE = "restore a backup: svcctl db restore FILE"
INSTALL = "install the newer version of svcserver again"
_EXTENT = ("page_count", "page_size")
OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOCK = 0x53564344  # any constant: two services must not migrate concurrently


def upgrade(engine: Engine, revision: str = "head") -> bool:
    """Migrate the database to ``revision``; return True if the database was new and empty.

    Raises BadDatabase if the database cannot be used.
    """
    if is_sqlite(engine):
        _make_private(engine.url.database or "")
    try:
        refuse_unsuitable(engine)
        with transaction(engine) as tx:
            if is_sqlite(engine):
                _look_through(tx)
            else:
                tx.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            new, newer = revisions.present(tx) is None, revisions.newer(tx)
            if newer is None:
                _run(tx, revisions.known()[-1] if revision == "head" else revision)
            elif lacking := unfit(tx):
                raise BadDatabase(f"{too_new(newer)}, and {lacking}; {INSTALL}")
            else:
                log.warn("the database can be used, although {what}", what=too_new(newer))
            # detect a read-only database now, not at the first save
            tx.execute(text("UPDATE alembic_version SET version_num = version_num"))
            return new
    except SQLAlchemyError as why:
        cure = cure_of(why)
        raise BadDatabase(
            f"the database cannot be used: {describe(why)}" + (f"; {cure}" if cure else "")
        ) from why


def upgrade_apart(engine: Engine) -> bool:
    """Migrate a database as ``upgrade`` does; a child process runs the migrations, to save memory.

    Only the child process loads Alembic. If the child process fails, this process runs the
    migrations. It also does so if it has other threads, because a fork could then deadlock.
    """
    if is_sqlite(engine):
        if not _is_file(engine.url.database or ""):
            return upgrade(engine)  # a database in memory: a child process would have another one
        _make_private(engine.url.database or "")
    try:
        with transaction(engine) as tx:
            revision = revisions.present(tx)
    except SQLAlchemyError:
        return upgrade(engine)  # fails with the reason
    engine.dispose()
    behind = revision is None or (
        revision in revisions.known() and revision != revisions.known()[-1]
    )
    if behind and active_count() == 1:
        _in_a_child(engine)
    upgrade(engine)
    return revision is None


def _in_a_child(engine: Engine) -> None:
    child = os.fork()
    if child == 0:
        try:
            upgrade(engine)
        finally:
            os._exit(0)
    with suppress(ChildProcessError):  # the parent process ignores SIGCHLD: the child has ended
        os.waitpid(child, 0)


def too_new(revision: str) -> str:
    """Return the message for a database that a newer program version has migrated."""
    return f"the database's revision {revision} is newer than this version of svcserver"


def unfit(tx: Connection) -> str | None:
    """Return why this version cannot use a newer version's database, or None if it can.

    This version can use the database if the newer version has only added tables and optional
    columns.
    """
    present = inspect(tx).get_multi_columns(filter_names=list(METADATA.tables))
    for table in METADATA.sorted_tables:
        if (None, table.name) not in present:
            return f"the database has no table {table.name}"
        columns = {column["name"]: column for column in present[None, table.name]}
        for name in table.c.keys() - columns.keys():
            return f"the table {table.name} has no column {name}"
        for name in columns.keys() - set(table.c.keys()):
            if not columns[name]["nullable"] and columns[name].get("default") is None:
                return f"the table {table.name} requires a value for {name}"
    return None


def _is_file(database: str) -> bool:
    return database not in ("", ":memory:") and not database.startswith("file:")


def _make_private(file: str) -> None:
    """Create a missing database file with mode 0600, because SQLite would let all users read it.

    An existing file that others can read is made private, together with its write-ahead log and
    shared memory.
    """
    if not _is_file(file):
        return
    with suppress(OSError):  # if the file cannot be created, opening it gives the reason
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        return
    for path in (Path(file), Path(f"{file}-wal"), Path(f"{file}-shm")):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & OTHERS:
                path.chmod(0o600)
                text = "{file} was readable by other users (mode {mode}); now it is private"
                log.warn(text, file=str(path), mode=f"{mode:04o}")
        except FileNotFoundError:
            continue
        except OSError as why:
            text = "{file} is readable by other users ({why}); run chmod 600 on it"
            log.warn(text, file=str(path), why=why.strerror)


def _look_through(tx: Connection) -> None:
    """Raise BadDatabase if the file is damaged; skip files over ``LOOKED_THROUGH`` bytes."""
    pages, size = (tx.exec_driver_sql(f"PRAGMA {pragma}").scalar_one() for pragma in _EXTENT)
    if pages * size > LOOKED_THROUGH:
        return
    verdict = str(tx.exec_driver_sql("PRAGMA quick_check(1)").scalar_one())
    if verdict != "ok":
        raise BadDatabase(f"the database is damaged ({verdict.splitlines()[-1]}); {RESTORE}")


def _run(connection: Connection, revision: str) -> None:
    if revisions.present(connection) == revision:
        return
    from svcserver.db.migrations import scripts  # imports Alembic only if needed

    scripts.run(connection, revision)
