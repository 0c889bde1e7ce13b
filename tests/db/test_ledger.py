"""On real databases, acknowledged means committed, and a failure affects no other job.

The worker threads are real; the reactor is a queue that the test empties.
"""

from __future__ import annotations

from threading import Event, Thread
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import IntegrityError, OperationalError

from svcserver.db import postgres
from svcserver.db import transaction as transactions
from svcserver.db.engine import database_url, make_engine
from svcserver.db.ledger import OneAccount
from svcserver.db.sqlite import MAX_WAITING
from svcserver.db.transaction import transaction
from svcserver.kernel.counters import Counted
from svcserver.kernel.refusals import Conflict, Unavailable
from tests.db.ledgers import LedgerCase, add, connection_error, duplicate, names
from tests.support.postgres import fresh_database
from tests.support.processes import PATIENCE_S


class SqliteLedgerTests(LedgerCase):
    def test_a_write_is_seen_by_the_next_read_and_by_others(self) -> None:
        self.wait(self.ledger.write(add(1)))
        self.assertEqual(self.wait(self.ledger.read_snapshot(names)), ["1"])
        with self.engine.connect() as second:
            self.assertEqual(names(second), ["1"])

    def test_work_that_raises_rolls_back_alone(self) -> None:
        def fails(tx: Connection) -> None:
            add(99)(tx)
            raise Conflict("no")

        pending = [self.ledger.write(add(n) if n % 3 else fails) for n in range(30)]
        for result in pending:
            result.addErrback(lambda why: why.trap(Conflict))
        self.reactor.wait_for(*pending)
        names_kept = [str(n) for n in range(30) if n % 3]
        self.assertEqual(self.wait(self.ledger.read_snapshot(names)), names_kept)

    def test_a_broken_uniqueness_costs_the_neighbours_nothing(self) -> None:
        pending = [self.ledger.write(add(n, "same" if n < 10 else "")) for n in range(20)]
        refused = []
        for result in pending:
            result.addErrback(lambda why: refused.append(why.trap(IntegrityError)))
        self.reactor.wait_for(*pending)
        self.assertEqual(len(refused), 9)
        self.assertEqual(len(self.wait(self.ledger.read_snapshot(names))), 11)

    def test_read_then_write_holds_under_concurrency(self) -> None:
        def count(tx: Connection) -> int:
            number = len(names(tx)) + 1
            add(number)(tx)
            return number

        pending = [self.ledger.write(count) for _ in range(40)]
        self.reactor.wait_for(*pending)
        self.assertEqual(
            sorted(self.successResultOf(result) for result in pending), list(range(1, 41))
        )

    def test_a_read_sees_one_moment_however_many_statements_it_takes(self) -> None:
        self.wait(self.ledger.write(add(1)))
        looked, written = Event(), Event()

        def twice(tx: Connection) -> tuple[list[str], list[str]]:
            before = names(tx)
            looked.set()
            written.wait(20)
            return before, names(tx)

        def add_between() -> None:
            looked.wait(20)
            with transaction(self.engine) as tx:
                add(2)(tx)
            written.set()

        between = Thread(target=add_between)
        between.start()
        self.assertEqual(self.wait(self.ledger.read_snapshot(twice)), (["1"], ["1"]))
        between.join(20)
        self.assertEqual(self.wait(self.ledger.read_snapshot(names)), ["1", "2"])

    def test_a_cancelled_write_is_still_committed(self) -> None:
        pending = self.ledger.write(add(1))
        pending.addErrback(lambda why: None)
        pending.cancel()
        self.wait(self.ledger.write(add(2)))
        self.assertIn("2", self.wait(self.ledger.read_snapshot(names)))

    def test_stop_finishes_accepted_writes_and_refuses_new_writes(self) -> None:
        pending = [self.ledger.write(add(n)) for n in range(20)]
        self.stop()
        self.reactor.wait_for(*pending)
        self.failureResultOf(self.ledger.write(add(50)), Unavailable)
        with self.engine.connect() as second:
            self.assertEqual(len(names(second)), 20)

    def test_the_queue_is_bounded(self) -> None:
        started = self.ledger.write(lambda tx: self.reactor.calls.put((lambda: None, (), {})))
        pending = [self.ledger.write(lambda tx: None) for _ in range(MAX_WAITING)]
        refused = [result for result in pending if result.called]
        self.assertTrue(refused)
        for result in refused:
            self.failureResultOf(result, Unavailable)
        self.reactor.wait_for(started, *pending)


@pytest.mark.live
class PostgresLedgerTests(SqliteLedgerTests):
    def make(self) -> Engine:
        engine = make_engine(database_url(fresh_database()))
        self.addCleanup(engine.dispose)
        return engine

    def test_a_foreign_lock_holds_nobody_up_for_ever(self) -> None:
        self.patch(postgres, "STATEMENT_S", 1.0)
        self.wait(self.ledger.write(add(1)))
        with self.engine.connect() as second, second.begin():
            second.execute(text("SET statement_timeout = 0"))
            second.execute(text("LOCK TABLE things"))
            pending = self.ledger.read_snapshot(names)
            self.reactor.wait_for(pending)
            self.failureResultOf(pending, Unavailable)
        self.assertEqual(self.wait(self.ledger.read_snapshot(names)), ["1"])

    def test_the_reactor_is_not_blocked_while_the_ledger_stops(self) -> None:
        go = Event()
        pending = self.ledger.write(lambda tx: go.wait(20))
        stopped = self.ledger.stopService()
        self.assertNoResult(stopped)
        go.set()
        self.reactor.wait_for(pending, stopped)
        self.assertTrue(self.successResultOf(pending))

    def test_the_threads_are_bounded_and_so_are_the_connections(self) -> None:
        ledger: Any = self.ledger
        self.assertEqual([len(pool.threads) for pool in ledger._pools()], [2, 2, 4])
        pool: Any = self.engine.pool
        self.assertEqual((pool.size(), pool._max_overflow), (8, 0))

    def test_a_read_waits_for_no_writer(self) -> None:
        go = Event()
        writes = [self.ledger.write(lambda tx: go.wait(20)) for _ in range(20)]
        self.assertEqual(self.wait(self.ledger.read_snapshot(names)), [])
        go.set()
        self.reactor.wait_for(*writes)

    def test_work_of_one_turn_takes_one_thread_and_keeps_its_order(self) -> None:
        go, order = Event(), list[int]()
        first = self.ledger.write(lambda tx: go.wait(20), OneAccount("ann"))
        others = [
            self.ledger.write(lambda tx, n=n: order.append(n), OneAccount("ann")) for n in range(20)
        ]
        self.wait(self.ledger.write(add(1), OneAccount("ben")))
        self.wait(self.ledger.write(add(2)))
        self.assertEqual(order, [])
        go.set()
        self.reactor.wait_for(first, *others)
        self.assertEqual((order, self.turns()), (list(range(20)), 0))

    def test_a_turn_that_fails_lets_the_next_go(self) -> None:
        def fails(tx: Connection) -> None:
            raise Conflict("no")

        pending = [self.ledger.write(work, OneAccount("ann")) for work in (fails, add(1))]
        self.reactor.wait_for(*pending)
        self.failureResultOf(pending[0], Conflict)
        self.assertEqual((self.wait(self.ledger.read_snapshot(names)), self.turns()), (["1"], 0))

    def test_stop_finishes_the_turns_that_wait(self) -> None:
        pending = [self.ledger.write(add(n), OneAccount("ann")) for n in range(10)]
        self.stop()
        self.reactor.wait_for(*pending)
        with self.engine.connect() as second:
            self.assertEqual(len(names(second)), 10)

    def test_a_cancelled_write_holds_its_place_until_it_ends(self) -> None:
        self.patch(postgres, "MAX_WAITING", 1)
        go = Event()
        left = self.ledger.write(lambda tx: go.wait(20))
        left.addErrback(lambda why: None)
        left.cancel()
        self.failureResultOf(self.ledger.read_snapshot(names), Unavailable)
        go.set()
        while self.ledger._under_way:
            call, args, kwargs = self.reactor.calls.get(timeout=PATIENCE_S)
            call(*args, **kwargs)
        self.assertEqual(self.wait(self.ledger.read_snapshot(names)), [])

    def test_conflicts_leave_a_broken_uniqueness_its_second_run(self) -> None:
        left = [
            *(connection_error("40001") for _ in range(7)),
            connection_error("40P01"),
            duplicate(),
            duplicate(),
        ]

        def crowded(tx: Connection) -> str:
            if left:
                raise left.pop(0)
            return "done"

        self.patch(transactions, "_wait", lambda attempt: None)
        self.assertEqual(self.wait(self.ledger.write(crowded)), "done")
        self.assertEqual(self.counters.total(Counted.RERUN_TRANSACTIONS), 10)

    def test_a_failing_write_is_repeated_a_bounded_number_of_times(self) -> None:
        runs: list[int] = []
        self.patch(transactions, "_wait", lambda attempt: None)
        for error, most, message in (
            (connection_error("40001"), 30, Unavailable),
            (duplicate(), 4, IntegrityError),
            (connection_error("42601"), 1, OperationalError),
        ):

            def always(tx: Connection, error: Exception = error) -> None:
                runs.append(1)
                raise error

            runs.clear()
            pending = self.ledger.write(always)
            self.reactor.wait_for(pending)
            self.failureResultOf(pending, message)
            self.assertEqual(len(runs), most)

    def turns(self) -> int:
        ledger: Any = self.ledger
        return len(ledger._turns)
