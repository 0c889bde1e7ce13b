"""The revisions that this version knows, and the database's revision; without Alembic."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

_SCRIPTS = Path(__file__).parent / "versions"


def known() -> list[str]:
    """Return every revision that this version knows, the newest last.

    Read from the names of the scripts: Alembic costs a start half a second and 8 MB.
    """
    return sorted(script.stem.partition("_")[0] for script in _SCRIPTS.glob("[0-9]*.py"))


def present(tx: Connection) -> str | None:
    """Return the database's revision; None while there are no tables."""
    if not inspect(tx).has_table("alembic_version"):
        return None
    revision = tx.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if revision is None else str(revision)


def newer(tx: Connection) -> str | None:
    """Return the database's revision if this version does not know it."""
    revision = present(tx)
    return None if revision is None or revision in known() else revision
