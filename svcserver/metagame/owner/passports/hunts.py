"""Each player's latest hunts, recorded when a player is sent to a hunt."""

from collections.abc import Callable

import sqlalchemy as sa
from attrs import frozen
from twisted.internet.defer import Deferred

from svcserver.db.ledger import Ledger, OneAccount
from svcserver.db.tables import METADATA, ROW_ID
from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import SentToHunt

MAX_HUNTS = 10  # hunts per player
HUNTS = sa.Table(
    "latest_hunts",
    METADATA,
    sa.Column("id", ROW_ID, primary_key=True, autoincrement=True),
    sa.Column("account_id", sa.String(64), nullable=False, index=True),
    sa.Column("hunt_id", sa.String(128), nullable=False),
    sa.Column("at", sa.BigInteger, nullable=False),  # epoch milliseconds
)
_H = HUNTS.c
_ADD = sa.insert(HUNTS)
_LATEST = (
    sa.select(_H.hunt_id, _H.at)
    .where(_H.account_id == sa.bindparam("account"))
    .order_by(_H.id.desc())
    .limit(MAX_HUNTS)
)
_OLDEST_KEPT = (
    sa.select(_H.id)
    .where(_H.account_id == sa.bindparam("account"))
    .order_by(_H.id.desc())
    .limit(1)
    .offset(MAX_HUNTS - 1)
    .scalar_subquery()
)
_CUT = sa.delete(HUNTS).where(_H.account_id == sa.bindparam("account"), _H.id < _OLDEST_KEPT)


def latest(tx: sa.Connection, account_id: AccountId) -> list[tuple[str, int]]:
    """Return the ids and times of the player's latest hunts, newest first."""
    return [(row[0], row[1]) for row in tx.execute(_LATEST, {"account": account_id})]


@frozen
class HuntLog:
    """The record of the latest hunts."""

    ledger: Ledger
    wall_clock: Callable[[], float]

    def note(self, sent: SentToHunt) -> Deferred[None]:
        """Record a player's hunt, and delete all but the player's newest ``MAX_HUNTS`` hunts."""
        account_id = sent.account_id

        def work(tx: sa.Connection) -> None:
            row = {"account_id": account_id, "hunt_id": sent.hunt_id}
            tx.execute(_ADD, {**row, "at": round(self.wall_clock() * 1000)})
            tx.execute(_CUT, {"account": account_id})

        return self.ledger.write(work, OneAccount(account_id))
