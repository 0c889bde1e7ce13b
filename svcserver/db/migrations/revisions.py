"""Which revisions this version knows, and which the database has; without Alembic."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

_SCRIPTS = Path(__file__).parent / "versions"


def known() -> list[str]:
    """Every revision that this version knows, the newest last.

    Read from the names of the scripts: Alembic costs a start half a second and 8 MB.
    """
    return sorted(one.stem.partition("_")[0] for one in _SCRIPTS.glob("[0-9]*.py"))


def present(tx: Connection) -> str | None:
    """The database's revision; None where there are no tables yet."""
    if not inspect(tx).has_table("alembic_version"):
        return None
    found = tx.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if found is None else str(found)


def newer(tx: Connection) -> str | None:
    """The database's revision where this version does not know it."""
    found = present(tx)
    return None if found is None or found in known() else found
