"""Hosts in these tests get a copy of a migrated database, because migrations take long."""

from functools import lru_cache

import pytest
from sqlalchemy import Connection, create_engine

from svcserver.db import migrations
from svcserver.db.engine import is_sqlite
from svcserver.db.migrations import revisions

_migrate = migrations._run


@lru_cache(maxsize=1)
def _made() -> tuple[str, ...]:
    """Return the statements that create a fully migrated database, computed only once."""
    engine = create_engine("sqlite://")
    with engine.begin() as tx:
        _migrate(tx, revisions.known()[-1])
        driver = tx.connection.dbapi_connection
        assert driver is not None
        return tuple(driver.iterdump())[1:-1]  # without its own BEGIN and COMMIT


def _copy(tx: Connection, revision: str) -> None:
    whole = revision == revisions.known()[-1] and revisions.present(tx) is None
    if not whole or not is_sqlite(tx.engine):
        _migrate(tx, revision)
        return
    for statement in _made():
        tx.exec_driver_sql(statement)


@pytest.fixture(autouse=True)
def _copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each new host a copy of the database; tests/db tests the migrations themselves."""
    monkeypatch.setattr(migrations, "_run", _copy)
