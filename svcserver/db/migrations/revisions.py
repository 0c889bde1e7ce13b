"""The revisions that this version knows, and the database's revision, read without Alembic."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

_SCRIPTS = Path(__file__).parent / "versions"


def known() -> list[str]:
    """Return every revision that this version knows, the newest last.

    The revisions come from the scripts' file names, because importing Alembic costs half a second
    and 8 MB at start.
    """
    return sorted(script.stem.partition("_")[0] for script in _SCRIPTS.glob("[0-9]*.py"))


def present(tx: Connection) -> str | None:
    """Return the database's revision, or None if the database has no tables yet."""
    if not inspect(tx).has_table("alembic_version"):
        return None
    revision = tx.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if revision is None else str(revision)


def newer(tx: Connection) -> str | None:
    """Return the database's revision if it is unknown to this version, else None."""
    revision = present(tx)
    return None if revision is None or revision in known() else revision
