"""New SQLite databases as copies of a migrated one, because migrations take long.

Only a new database that gets all migrations is a copy. The tests in ``tests/db``, and programs
that tests start without a fork, run the migrations themselves.
"""

from functools import lru_cache

from sqlalchemy import Connection, create_engine

from svcserver.db import migrations
from svcserver.db.engine import is_sqlite
from svcserver.db.migrations import revisions

_migrate = migrations._run


@lru_cache(maxsize=1)
def _statements() -> tuple[str, ...]:
    """Return the statements that create a fully migrated database, computed only once."""
    engine = create_engine("sqlite://")
    with engine.begin() as tx:
        _migrate(tx, revisions.known()[-1])
        driver = tx.connection.dbapi_connection
        assert driver is not None
        statements = tuple(driver.iterdump())[1:-1]  # without its own BEGIN and COMMIT
    engine.dispose()
    return statements


def copy(tx: Connection, revision: str) -> None:
    """Migrate the database to ``revision``; if it is new, run the saved statements instead."""
    whole = revision == revisions.known()[-1] and revisions.present(tx) is None
    if not whole or not is_sqlite(tx.engine):
        _migrate(tx, revision)
        return
    for statement in _statements():
        tx.exec_driver_sql(statement)


def always_copy() -> None:
    """Let this process and its forks copy the migrated database."""
    _statements()
    setattr(migrations, _migrate.__name__, copy)
