"""The code that uses Alembic to run the migration scripts and to list pending scripts."""

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from svcserver.db.migrations import revisions


def run(connection: Connection, revision: str) -> None:
    """Migrate the database to ``revision`` within the caller's transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def pending(tx: Connection) -> list[tuple[str, str]]:
    """Return the pending revisions, oldest first, each with its description."""
    scripts = [*ScriptDirectory.from_config(_config()).walk_revisions()][::-1]
    done = revisions.present(tx)
    names = [script.revision for script in scripts]
    left = scripts[names.index(done) + 1 :] if done in names else scripts
    return [
        (script.revision, (script.doc or "").splitlines()[0] if script.doc else "")
        for script in left
    ]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "svcserver.db:migrations")
    return config
