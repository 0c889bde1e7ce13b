"""Connections to a real PostgreSQL that break at the worst moments, and the results.

Either the server ends the connection, or the network link is cut and the server continues.

If the connection breaks before COMMIT was sent, the work was certainly rolled back and runs again.
After COMMIT was sent, the outcome is unknown: the work fails and never runs twice.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from twisted.internet.defer import Deferred

from svcserver.db.engine import make_engine
from svcserver.db.factory import ledger_for
from svcserver.db.ledger import ACROSS, OneAccount, Scope
from tests.db.test_isolation import COINS, NAMES, OWNERS, PostgresCase, earn
from tests.support.forwarder import Forwarder

pytestmark = pytest.mark.live

DEADLINE_S = 20.0
WAIT_FOR_US = "SELECT pg_advisory_xact_lock(7)"
AT_COMMIT = f"""
CREATE FUNCTION wait_for_us() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN PERFORM ({WAIT_FOR_US.removesuffix(";")}); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER at_commit AFTER UPDATE ON purses DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION wait_for_us();
"""
WAITING = text(
    "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
CUT = text("SELECT pg_terminate_backend(:pid)")
ME = NAMES[0]


class BrokenConnectionTests(PostgresCase):
    def setUp(self) -> None:
        super().setUp()
        self.runs: list[str] = []

    def earning(self, me: str, last: str = "") -> Any:
        """Return work that records its runs and finally executes ``last``."""

        def work(tx: Connection) -> int:
            self.runs.append(me)
            coins = int(earn(me)(tx))
            if last:
                tx.execute(text(last))
            return coins

        return work

    @contextmanager
    def held(self, what: str) -> Iterator[Connection]:
        """Yield another process's connection, which holds the lock that the work waits for."""
        with self.engines[1].connect() as blocker, blocker.begin():
            blocker.execute(text(what))
            yield blocker

    def waiting(self, beside: Connection, before: int = 0) -> list[int]:
        """Wait until ``before`` + 1 connections wait for a lock; return their pids."""
        ends = time.monotonic() + DEADLINE_S
        pids: list[int] = []
        while len(pids) <= before and time.monotonic() < ends:
            self.reactor.turn()
            pids = list(beside.execute(WAITING).scalars())
            beside.rollback()
        self.assertEqual(len(pids), before + 1)
        return pids

    def cut(self) -> None:
        """End the connection that waits for the lock."""
        with self.engines[1].connect() as beside:
            pids = self.waiting(beside)
            beside.execute(CUT, {"pid": pids[0]})
            while beside.execute(WAITING).scalars().all() == pids:
                beside.rollback()

    def refused(self, pending: Deferred[Any]) -> None:
        self.reactor.wait_for(pending)
        self.failureResultOf(pending)

    def coins(self, me: str) -> int:
        [held] = self.wait(
            self.ledgers[0].read_snapshot(lambda tx: tx.execute(COINS, {"me": me}).scalar())
        )
        return int(held)

    def assert_never_run_again(self, scope: Scope) -> None:
        with self.engines[0].begin() as tx:
            tx.exec_driver_sql(AT_COMMIT)
        with self.held(WAIT_FOR_US):
            pending = self.ledgers[0].write(self.earning(ME), scope)
            self.cut()
            self.refused(pending)
        self.assertEqual((self.runs, self.coins(ME)), ([ME], 0))
        self.assertEqual(self.wait(self.ledgers[0].write(self.earning(ME), scope)), [1])

    def test_an_account_write_cut_during_commit_is_never_run_again(self) -> None:
        self.assert_never_run_again(OneAccount(ME))

    def test_a_write_across_accounts_cut_during_commit_never_runs_again(self) -> None:
        self.assert_never_run_again(ACROSS)

    def test_a_batch_cut_before_its_commit_is_run_again_and_counts_once(self) -> None:
        ledger = self.ledgers[0]
        with self.held(WAIT_FOR_US):
            others = [ledger.write(self.earning(me), OneAccount(me)) for me in NAMES[1:]]
            waits = ledger.write(self.earning(ME, WAIT_FOR_US), OneAccount(ME))
            self.cut()  # it shares a transaction with those before it, but perhaps the first
        self.assertEqual(self.wait(waits, *others), [1] * len(NAMES))
        self.assertEqual([self.coins(me) for me in NAMES], [1] * len(NAMES))
        self.assertEqual(self.runs.count(ME), 2)
        self.assertGreater(len(self.runs), len(NAMES) + 1)

    def test_a_write_across_accounts_cut_before_commit_runs_again(self) -> None:
        with self.held(WAIT_FOR_US):
            pending = self.ledgers[0].write(self.earning(ME, WAIT_FOR_US), ACROSS)
            self.cut()
        self.assertEqual((self.wait(pending), self.runs), ([1], [ME, ME]))

    def test_a_write_cut_twice_before_its_commit_is_refused(self) -> None:
        with self.held(WAIT_FOR_US):
            pending = self.ledgers[0].write(self.earning(ME, WAIT_FOR_US), ACROSS)
            self.cut()
            self.cut()
            self.refused(pending)
        self.assertEqual((self.runs, self.coins(ME)), ([ME, ME], 0))

    def test_a_write_cut_while_it_waits_for_its_account_runs_once(self) -> None:
        with self.held("SELECT id FROM owners WHERE id = 'UID-0' FOR UPDATE"):
            pending = self.ledgers[0].write(self.earning(ME), OneAccount(ME))
            self.cut()
            self.assertEqual(self.runs, [])
        self.assertEqual((self.wait(pending), self.runs), ([1], [ME]))


class CutLineTests(BrokenConnectionTests):
    """The ledger's network link is cut, but the server continues with the statement."""

    def setUp(self) -> None:
        super().setUp()
        made = self.engines[1].url
        place = Path(str(made.query["host"])) / ".s.PGSQL.5432"
        self.line = self.enterContext(Forwarder(place))
        url = made.set(host="127.0.0.1", port=self.line.port, query={})
        engine = make_engine(url, 4)
        ledger = ledger_for(engine, self.reactor, counters=self.counters, accounts=OWNERS.c.id)
        self.engines.insert(0, engine)
        self.ledgers.insert(0, ledger)
        ledger.startService()
        self.left = 0  # connections that wait at the server although their client has ended

    def waiting(self, beside: Connection, before: int = 0) -> list[int]:
        return super().waiting(beside, self.left)

    def cut(self) -> None:
        with self.engines[1].connect() as beside:
            self.waiting(beside)
        self.left += 1
        self.line.drop()

    def assert_never_run_again(self, scope: Scope) -> None:
        """Check that a commit in progress when the link was cut is executed only once."""
        with self.engines[1].begin() as tx:
            tx.exec_driver_sql(AT_COMMIT)
        with self.held(WAIT_FOR_US):
            pending = self.ledgers[0].write(self.earning(ME), scope)
            self.cut()
            self.refused(pending)
        ends = time.monotonic() + DEADLINE_S
        while not self.coins(ME) and time.monotonic() < ends:
            self.reactor.turn()
        self.assertEqual((self.runs, self.coins(ME)), ([ME], 1))
        self.assertEqual(self.wait(self.ledgers[0].write(self.earning(ME), scope)), [2])
