"""Migrations, run at start before the first request. They only add. Spec: 1 §9.4."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, text

from svcserver.db.engine import BadDatabase, SQLAlchemyError, describe, is_sqlite
from svcserver.db.transaction import transaction

_LOCK = 0x53564344  # any constant: two starting services must not migrate at once


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Bring the database to ``revision``; raises BadDatabase when it cannot be used."""
    try:
        with transaction(engine) as tx:
            if not is_sqlite(engine):  # SQLite's own lock already keeps a second one out
                tx.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            _run(tx, revision)
    except SQLAlchemyError as why:
        raise BadDatabase(f"the database cannot be used: {describe(why)}") from why


def _run(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", "svcserver.db:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
