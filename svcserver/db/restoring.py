"""The lock that a restore holds on a database, so that no metagame starts meanwhile."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.engine import URL

from svcserver.db.engine import BadDatabase, make_engine

if os.name == "posix":
    import fcntl

_KEY = 0x7376_6372  # of PostgreSQL's advisory lock
BUSY = "svcctl is restoring the database; try again when the restore has ended"


@contextmanager
def restoring(url: URL) -> Iterator[None]:
    """Hold the restore lock during the block; raises BadDatabase if another restore holds it.

    Inside the block, check whether services run. The check finds a metagame that started earlier; a
    metagame that starts later is refused.
    """
    with ExitStack() as stack:
        if (path := _lock_file(url)) is not None:
            handle = stack.enter_context(path.open("a"))
            if not _is_locked_by_us(handle.fileno()):
                raise BadDatabase(BUSY)
            stack.callback(path.unlink, missing_ok=True)
        elif url.get_backend_name() == "postgresql":
            engine = make_engine(url).execution_options(isolation_level="AUTOCOMMIT")
            stack.callback(engine.dispose)
            tx = stack.enter_context(engine.connect())
            if not tx.exec_driver_sql(f"SELECT pg_try_advisory_lock({_KEY})").scalar_one():
                raise BadDatabase(BUSY)
            # the server releases a session's lock some time after the session was closed
            stack.callback(tx.exec_driver_sql, f"SELECT pg_advisory_unlock({_KEY})")
        yield


def refuse_restored(engine: Engine) -> None:
    """Raise BadDatabase while a restore holds the lock."""
    path = _lock_file(engine.url)
    if path is None:
        if engine.url.get_backend_name() == "postgresql":
            with engine.connect() as tx:
                query = f"SELECT pg_try_advisory_xact_lock_shared({_KEY})"
                if not tx.exec_driver_sql(query).scalar_one():
                    raise BadDatabase(BUSY)
        return
    try:
        with path.open("r") as handle:
            if not _is_locked_by_us(handle.fileno()):
                raise BadDatabase(BUSY)
    except FileNotFoundError:
        return


def _lock_file(url: URL) -> Path | None:
    """Return the lock file of an SQLite database, or None on PostgreSQL or without flock."""
    if os.name != "posix" or url.get_backend_name() != "sqlite" or not url.database:
        return None
    return Path(f"{url.database}.restoring") if url.database != ":memory:" else None


def _is_locked_by_us(handle: int) -> bool:
    """Lock an open file until it is closed; return False if another process has locked it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
