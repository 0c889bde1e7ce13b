"""The time at which the metagame began to use its signing key, for ``svcctl keys retire``.

A new key is used from the next start of the metagame. Until then the old key signs tokens, which
are valid for a day. So the old key can be retired a day after that start.
"""

import sqlalchemy as sa

from svcserver.db.tables import METADATA

SIGNING_KEYS = sa.Table(
    "signing_keys",
    METADATA,
    sa.Column("kid", sa.String(64), primary_key=True),
    sa.Column("signs_since", sa.BigInteger, nullable=False),  # epoch seconds
)
_NEWEST = sa.select(SIGNING_KEYS).order_by(SIGNING_KEYS.c.signs_since.desc()).limit(1)
_DROP = sa.delete(SIGNING_KEYS).where(SIGNING_KEYS.c.kid == sa.bindparam("wanted"))
_ADD = sa.insert(SIGNING_KEYS)


def note_signing(tx: sa.Connection, kid: str, at: float) -> None:
    """Record that the metagame starts with this key.

    Nothing is recorded if the last start used the same key.
    """
    newest = tx.execute(_NEWEST).first()
    if newest is not None and newest.kid == kid:
        return
    since = int(at) if newest is None else max(int(at), newest.signs_since + 1)
    tx.execute(_DROP, {"wanted": kid})  # an earlier row, if an old key is used again
    tx.execute(_ADD, {"kid": kid, "signs_since": since})


def signs_since(tx: sa.Connection, kid: str) -> int | None:
    """Return the time (epoch seconds) at which the metagame began to sign with this key.

    The result is None if the last start used another key.
    """
    newest = tx.execute(_NEWEST).first()
    return None if newest is None or newest.kid != kid else int(newest.signs_since)
