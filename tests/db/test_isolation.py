"""Isolation on PostgreSQL: one account's transactions are serialized, others run concurrently.

Two ledgers on one database represent two processes. The threads are real.
"""

from __future__ import annotations

from threading import Event
from typing import Any

import pytest
from sqlalchemy import (
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    bindparam,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.exc import IntegrityError
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.engine import database_url, make_engine
from svcserver.db.factory import ledger_for
from svcserver.db.ledger import ACROSS, OneAccount
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.refusals import Conflict
from tests.support.postgres import fresh_database
from tests.support.real_ledger import QueueReactor

META = MetaData()
OWNERS = Table("owners", META, Column("id", String(64), primary_key=True))
PURSES = Table(
    "purses",
    META,
    Column("owner", String(64), primary_key=True),
    Column("coins", Integer, nullable=False),
    Column("data", LargeBinary),
)
COINS = select(PURSES.c.coins).where(PURSES.c.owner == bindparam("me"))
SOME = select(PURSES.c.owner).where(PURSES.c.owner.in_(bindparam("ids", expanding=True)))
PUT = update(PURSES).where(PURSES.c.owner == bindparam("me")).values(coins=bindparam("now"))
KEEP = update(PURSES).where(PURSES.c.owner == bindparam("me")).values(data=bindparam("bytes"))
LEVEL = text("SELECT current_setting('transaction_isolation')")
NAMES = [f"UID-{n}" for n in range(24)]


def earn(me: str) -> Any:
    """Read a value, then write a value that depends on it."""

    def work(tx: Connection) -> int:
        coins = int(tx.execute(COINS, {"me": me}).scalar_one()) + 1
        tx.execute(PUT, {"me": me, "now": coins})
        return coins

    return work


@pytest.mark.live
class PostgresCase(SynchronousTestCase):
    """Two ledgers and a table of purses on PostgreSQL."""

    def setUp(self) -> None:
        self.where = fresh_database()
        self.reactor, self.counters = QueueReactor(), Counters()
        self.engines = [make_engine(database_url(self.where), 4) for _ in range(2)]
        META.create_all(self.engines[0])
        with self.engines[0].begin() as tx:
            tx.execute(insert(OWNERS), [{"id": name} for name in NAMES])
            tx.execute(insert(PURSES), [{"owner": name, "coins": 0} for name in NAMES])
        self.ledgers = [
            ledger_for(engine, self.reactor, counters=self.counters, accounts=OWNERS.c.id)
            for engine in self.engines
        ]
        for ledger in self.ledgers:
            ledger.startService()
        self.addCleanup(self.stop)

    def stop(self) -> None:
        for ledger, engine in zip(self.ledgers, self.engines, strict=True):
            self.reactor.wait_for(ledger.stopService())
            engine.dispose()

    def wait(self, *pending: Deferred[Any]) -> list[Any]:
        self.reactor.wait_for(*pending)
        return [self.successResultOf(result) for result in pending]

    def reruns(self) -> int:
        return self.counters.total(Counted.RERUN_TRANSACTIONS)


class IsolationTests(PostgresCase):
    def test_each_scope_has_its_isolation_level(self) -> None:
        ask, ledger = lambda tx: tx.execute(LEVEL).scalar_one(), self.ledgers[0]
        levels = self.wait(
            ledger.read_snapshot(ask),
            ledger.write(ask, OneAccount(NAMES[0])),
            ledger.write(ask, OneAccount("nobody")),
            ledger.write(ask, OneAccount("no\0body")),
            ledger.write(ask, ACROSS),
        )
        self.assertEqual(
            levels,
            ["repeatable read", "read committed", *["serializable"] * 3],
        )

    def test_one_accounts_acts_in_two_processes_each_run_once(self) -> None:
        me = NAMES[0]
        pending = [
            ledger.write(earn(me), OneAccount(me)) for _ in range(20) for ledger in self.ledgers
        ]
        self.assertEqual(sorted(self.wait(*pending)), list(range(1, 41)))
        self.assertEqual(self.reruns(), 0)

    def test_writes_of_different_accounts_never_conflict(self) -> None:
        for _ in range(5):
            pending = [
                ledger.write(earn(me), OneAccount(me)) for ledger in self.ledgers for me in NAMES
            ]
            self.wait(*pending)
        self.assertEqual(self.reruns(), 0)
        self.assertEqual(self.wait(self.ledgers[0].write(earn(NAMES[3]), ACROSS)), [11])

    def test_a_held_account_waits_and_its_work_has_not_begun(self) -> None:
        held, begun = NAMES[0], Event()

        def late(tx: Connection) -> int:
            begun.set()
            return int(earn(held)(tx))

        with self.engines[1].connect() as blocker, blocker.begin():
            blocker.execute(select(OWNERS).where(OWNERS.c.id == held).with_for_update())
            waiting = self.ledgers[0].write(late, OneAccount(held))
            others = [self.ledgers[0].write(earn(me), OneAccount(me)) for me in NAMES[1:]]
            self.assertEqual(self.wait(*others), [1] * len(others))
            self.assertFalse(begun.is_set())
            blocker.execute(PUT, {"me": held, "now": 7})
        self.assertEqual(self.wait(waiting), [8])

    def test_a_refusal_after_a_write_undoes_its_own_alone(self) -> None:
        def refused(tx: Connection) -> None:
            earn(NAMES[0])(tx)
            raise Conflict("no")

        ledger = self.ledgers[0]
        bad = ledger.write(refused, OneAccount(NAMES[0]))
        good = [ledger.write(earn(me), OneAccount(me)) for me in NAMES[1:]]
        self.reactor.wait_for(bad)
        self.failureResultOf(bad, Conflict)
        self.assertEqual(self.wait(*good), [1] * len(good))
        self.assertEqual(self.wait(ledger.write(earn(NAMES[0]), OneAccount(NAMES[0]))), [1])

    def test_a_unique_violation_fails_only_the_write_that_caused_it(self) -> None:
        add = insert(PURSES)

        def twice(tx: Connection) -> None:
            tx.execute(add, {"owner": NAMES[1], "coins": 9})

        ledger = self.ledgers[0]
        for _ in range(3):  # by then the statement is planned
            bad = ledger.write(twice, OneAccount(NAMES[0]))
            good = [ledger.write(earn(me), OneAccount(me)) for me in NAMES[2:]]
            self.reactor.wait_for(bad)
            self.failureResultOf(bad, IntegrityError)
            self.wait(*good)

    def test_a_connection_that_was_cut_is_replaced_before_anybody_notices(self) -> None:
        ledger, me = self.ledgers[0], NAMES[0]
        for number in range(1, 4):
            self.assertEqual(self.wait(ledger.write(earn(me), OneAccount(me))), [number])
            with self.engines[1].connect() as blocker:
                blocker.execute(
                    text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )
                )
            self.assertEqual(
                self.wait(ledger.read_snapshot(lambda tx: tx.execute(COINS, {"me": me}).scalar())),
                [number],
            )

    def test_large_simultaneous_writes_are_stored_and_read_back(self) -> None:
        ledger, much = self.ledgers[0], bytes(range(256)) * 4096

        def keep(me: str) -> Any:
            return lambda tx: tx.execute(KEEP, {"me": me, "bytes": much}).rowcount

        def held(tx: Connection) -> list[Any]:
            return [row.data == much for row in tx.execute(select(PURSES)).all()]

        for _ in range(3):
            pending = [ledger.write(keep(me), OneAccount(me)) for me in NAMES]
            self.assertEqual(self.wait(*pending), [1] * len(NAMES))
        self.assertEqual(self.wait(ledger.read_snapshot(held)), [[True] * len(NAMES)])

    def test_lists_of_any_length_find_each_once(self) -> None:
        for count in (1, 2, 3, 17, 300, 700):
            ids = [*NAMES, *(f"x{n}" for n in range(count))][-count - 5 :]
            wanted = sorted({*ids} & {*NAMES})
            for _ in range(3):
                [row] = self.wait(
                    self.ledgers[0].read_snapshot(
                        lambda tx, ids=ids: sorted(tx.execute(SOME, {"ids": ids}).scalars())
                    )
                )
                self.assertEqual(row, wanted)

    def test_a_text_with_a_nul_character_is_refused_and_reads_go_on(self) -> None:
        for _ in range(3):
            pending = self.ledgers[0].read_snapshot(
                lambda tx: tx.execute(COINS, {"me": "a\0b"}).all()
            )
            self.reactor.wait_for(pending)
            self.failureResultOf(pending)
        self.assertEqual(
            len(
                self.wait(
                    self.ledgers[0].read_snapshot(
                        lambda tx: tx.execute(COINS, {"me": NAMES[0]}).all()
                    )
                )[0]
            ),
            1,
        )
