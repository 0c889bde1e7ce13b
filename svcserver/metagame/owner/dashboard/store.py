"""The names of entitlements that the owner may choose from."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from svcserver.metagame.achievements.entitlements.store import ENTITLEMENTS

MOST_NAMES = 500
_ENTITLEMENTS = (
    select(ENTITLEMENTS.c.name).distinct().order_by(ENTITLEMENTS.c.name).limit(bindparam("count"))
)


def known_entitlements(tx: Connection) -> list[str]:
    """The names of all entitlements that some account has had, by name."""
    return list(tx.execute(_ENTITLEMENTS, {"count": MOST_NAMES}).scalars())
