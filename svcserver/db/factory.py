"""The choice of the ``Ledger`` by back-end; features know only the protocol."""

from __future__ import annotations

from typing import Any, Protocol

from sqlalchemy import Column, Engine

from svcserver.db.engine import is_sqlite
from svcserver.db.ledger import Ledger
from svcserver.db.sqlite import SqliteLedger
from svcserver.kernel.counters import Counters


class LedgerService(Ledger, Protocol):
    """A ledger that is a ``Service`` too: it takes work from start to stop."""

    def startService(self) -> None:
        """Take work from now on."""

    def stopService(self) -> Any:
        """A Deferred that fires once accepted work is done."""

    def setServiceParent(self, parent: Any) -> None:
        """Start and stop with ``parent``."""


def ledger_for(
    engine: Engine,
    reactor: Any,
    reserve: int = 0,
    counters: Counters | None = None,
    accounts: Column[Any] | None = None,
) -> LedgerService:
    """Return the ledger of the engine's back-end.

    ``reserve``: bytes that SQLite leaves free on its disk. ``counters``: where PostgreSQL's
    transactions that are run again are counted; ``accounts``: the column by which it locks an
    account.
    """
    if is_sqlite(engine):
        return SqliteLedger(engine, reactor, reserve)
    # its driver takes 11 MB, which a host on SQLite is spared
    from svcserver.db.postgres import PostgresLedger

    return PostgresLedger(engine, reactor, counters or Counters(), accounts)
