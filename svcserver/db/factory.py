"""Chooses the ledger that fits the database; features use only the ``Ledger`` protocol."""

from typing import Any, Protocol

from sqlalchemy import Column, Engine

from svcserver.db.engine import is_sqlite
from svcserver.db.ledger import Ledger
from svcserver.db.sqlite import SqliteLedger
from svcserver.kernel.counters import Counters


class LedgerService(Ledger, Protocol):
    """A ledger that is also a Twisted service: it accepts work while it is running."""

    def startService(self) -> None:
        """Start accepting work."""

    def stopService(self) -> Any:
        """Return a Deferred that fires once all accepted work is done."""

    def setServiceParent(self, parent: Any) -> None:
        """Attach the ledger to ``parent``, so that they start and stop together."""


def ledger_for(
    engine: Engine,
    reactor: Any,
    reserve: int = 0,
    counters: Counters | None = None,
    accounts: Column[Any] | None = None,
) -> LedgerService:
    """Return the ledger for the database of ``engine``.

    ``reserve`` is the number of bytes that SQLite must leave free on its disk. ``counters``
    receives the number of transactions that were repeated on PostgreSQL. ``accounts`` is the column
    with the account ids; on PostgreSQL, a write to an account locks the account's row.
    """
    if is_sqlite(engine):
        return SqliteLedger(engine, reactor, reserve)
    # imported late: the driver takes 11 MB, which a host on SQLite does not need
    from svcserver.db.postgres import PostgresLedger

    return PostgresLedger(engine, reactor, counters or Counters(), accounts)
