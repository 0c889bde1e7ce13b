"""SQLite jobs in one batch share a transaction, but each job succeeds or fails by itself."""

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from svcserver.db.space import Reserve
from svcserver.kernel.refusals import Conflict, Unavailable
from tests.db.ledgers import FullDisk, LedgerCase, Stubborn, add, names


class SqliteBatchTests(LedgerCase):
    def test_a_refusal_before_the_first_write_makes_nobody_run_twice(self) -> None:
        runs, refused = self.run_beside(lambda tx: names(tx))
        self.assertEqual((runs, refused), ([1, 2], 1))

    def test_results_beside_a_failed_write_are_the_committed_results(self) -> None:
        runs, refused = self.run_beside(add(99))
        self.assertEqual((runs[-2:], refused), ([1, 2], 1))

    def test_a_rollback_that_fails_costs_its_batch_alone(self) -> None:
        worker: Any = self.ledger._writer
        worker._raw = stubborn = Stubborn(worker._raw)

        def fails(tx: Connection) -> None:
            add(1)(tx)
            raise Conflict("no")

        pending = self.ledger.write(fails)
        self.reactor.wait_for(pending)
        self.failureResultOf(pending, Unavailable)
        self.assertEqual(stubborn.left, 0)
        self.assertEqual(len(self.flushLoggedErrors(sqlite3.OperationalError)), 1)
        self.wait(self.ledger.write(add(2)))
        self.assertEqual(self.wait(self.ledger.read_snapshot(names)), ["2"])

    def writer(self) -> Any:
        ledger: Any = self.ledger
        return ledger._writer

    def test_a_full_disk_whose_log_can_be_emptied_refuses_nothing(self) -> None:
        self.writer()._raw = disk = FullDisk(self.writer()._raw)
        self.wait(self.ledger.write(add(1)))
        self.assertEqual((disk.emptied, self.wait(self.ledger.read_snapshot(names))), (1, ["1"]))

    def test_emptying_the_log_in_vain_is_not_tried_for_every_write(self) -> None:
        self.writer()._raw = disk = FullDisk(self.writer()._raw, helps=False)
        for number in range(3):
            pending = self.ledger.write(add(number))
            self.reactor.wait_for(pending)
            self.failureResultOf(pending, Unavailable)
        self.assertEqual(disk.emptied, 1)

    def test_a_disk_below_the_reserve_refuses_writes_and_serves_reads(self) -> None:
        left = [0]
        reserve = Reserve(Path("/"), 1, self.reactor.seconds, lambda folder: left[0])
        self.writer()._reserve = reserve
        pending = self.ledger.write(add(1))
        self.reactor.wait_for(pending)
        self.failureResultOf(pending, Unavailable)
        self.assertEqual(self.wait(self.ledger.read_snapshot(names)), [])
        left[0] = 1
        reserve.look_again()
        self.wait(self.ledger.write(add(2)))

    def run_beside(self, before_it_fails: Any) -> tuple[list[int], int]:
        """Run two jobs with a failing job between them; return the row counts that each run saw."""
        runs: list[int] = []

        def counted(tx: Connection) -> int:
            add(len(names(tx)) + 1)(tx)
            runs.append(len(names(tx)))
            return runs[-1]

        def fails(tx: Connection) -> None:
            before_it_fails(tx)
            raise Conflict("no")

        first, failing, last = [self.ledger.write(work) for work in (counted, fails, counted)]
        refused: list[Any] = []
        failing.addErrback(refused.append)
        self.reactor.wait_for(first, failing, last)
        self.assertEqual([self.successResultOf(work) for work in (first, last)], [1, 2])
        self.assertEqual(self.wait(self.ledger.read_snapshot(names)), ["1", "2"])
        return runs, len(refused)
