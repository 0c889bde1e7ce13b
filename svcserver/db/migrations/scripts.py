"""What needs Alembic: running the scripts, and saying what each would do."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from svcserver.db.migrations import revisions


def run(connection: Connection, revision: str) -> None:
    """Bring the database to ``revision``; the caller holds the transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def pending(tx: Connection) -> list[tuple[str, str]]:
    """The revisions that are still to be made, the oldest first, each with what it does."""
    known = [*ScriptDirectory.from_config(_config()).walk_revisions()][::-1]
    done = revisions.present(tx)
    names = [one.revision for one in known]
    left = known[names.index(done) + 1 :] if done in names else known
    return [(one.revision, (one.doc or "").splitlines()[0] if one.doc else "") for one in left]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "svcserver.db:migrations")
    return config
