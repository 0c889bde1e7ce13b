"""Migrations, run at start before the first request. They only add. Spec: 1 §9.4."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text

from svcserver.db.engine import BadDatabase, SQLAlchemyError, describe, is_sqlite

_LOCK = 0x53564344  # any constant: two starting services must not migrate at once


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the database to ``revision``; raises BadDatabase when it cannot be used."""
    try:
        if is_sqlite(engine):
            _upgrade_sqlite(engine, revision)
        else:
            with engine.begin() as tx:
                tx.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
                _run(tx, revision)
    except SQLAlchemyError as why:
        raise BadDatabase(f"the database cannot be used: {describe(why)}") from why


def _upgrade_sqlite(engine: Engine, revision: str) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        try:
            _run(connection, revision)
        except BaseException:
            connection.exec_driver_sql("ROLLBACK")
            raise
        connection.exec_driver_sql("COMMIT")


def _run(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", "svcserver.db:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
