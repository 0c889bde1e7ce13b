"""Makes the ``Ledger`` of an engine's back-end; features know only the protocol."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Column, Engine

from svcserver.db.engine import is_sqlite
from svcserver.db.postgres import PostgresLedger
from svcserver.db.sqlite import SqliteLedger
from svcserver.kernel.counters import Counters


def ledger_for(
    engine: Engine,
    reactor: Any,
    reserve: int = 0,
    counters: Counters | None = None,
    accounts: Column[Any] | None = None,
) -> SqliteLedger | PostgresLedger:
    """The ledger of the engine's back-end, which is also a ``Service``.

    ``reserve``: bytes that SQLite leaves free on its disk. ``counters``: where PostgreSQL's
    transactions that are run again are counted; ``accounts``: the column by which it locks an
    account.
    """
    return (
        SqliteLedger(engine, reactor, reserve)
        if is_sqlite(engine)
        else PostgresLedger(engine, reactor, counters or Counters(), accounts)
    )
