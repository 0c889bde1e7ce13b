"""Opens the metagame's database."""

from __future__ import annotations

from sqlalchemy import Engine
from twisted.logger import Logger

from svcserver.db import migrations
from svcserver.db.engine import BadDatabase, SQLAlchemyError, describe, make_engine
from svcserver.db.transaction import transact
from svcserver.metagame.accounts.store import move_queued_keys
from svcserver.metagame.settings import Settings

log = Logger()


def open_database(name: str, settings: Settings) -> Engine:
    """Migrate and prepare the database; it blocks, since no request may come before."""
    engine = make_engine(settings.database_url)
    try:
        migrations.upgrade(engine)
        moved = transact(engine, move_queued_keys)
    except BadDatabase as why:
        raise SystemExit(f"{name}: DATABASE_URL: {why}") from None
    except SQLAlchemyError as why:
        raise SystemExit(
            f"{name}: DATABASE_URL: the database cannot be used: {describe(why)}"
        ) from None
    if moved:
        log.info("registered {count} queued game-server keys", count=moved)
    return engine
