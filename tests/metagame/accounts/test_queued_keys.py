"""Game-server keys that an owner queues while services start. Spec: 1 §2."""

from threading import Event, Thread
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.db.transaction import transact, transaction
from svcserver.metagame.accounts.store import (
    QUEUED_KEYS,
    add_game_server_key,
    knows_game_server,
    move_queued_keys,
)
from tests.support.postgres import fresh_database

FIRST, LATER = "a" * 32, "b" * 32


def put_in_queue(tx: Connection, key: str) -> None:
    tx.execute(insert(QUEUED_KEYS), {"key": key})


def queue(tx: Connection) -> list[str]:
    return list(tx.execute(select(QUEUED_KEYS.c.key)).scalars())


@pytest.mark.live
class QueuedKeysTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.engine = make_engine(database_url(fresh_database()))
        self.addCleanup(self.engine.dispose)
        migrations.upgrade(self.engine)
        with transaction(self.engine) as tx:
            put_in_queue(tx, FIRST)

    def overtaken(self, second: Any) -> int:
        """Read the key queue, run ``second``, then move the queue; return how many keys moved."""
        runs: list[int] = []

        def work(tx: Connection) -> int:
            queue(tx)
            runs.append(1)
            if len(runs) == 1:
                second()
            return move_queued_keys(tx)

        return transact(self.engine, work)

    def test_a_key_queued_during_a_start_is_moved_at_the_next_start(self) -> None:
        def owner() -> None:
            with transaction(self.engine) as tx:
                put_in_queue(tx, LATER)

        self.overtaken(owner)
        transact(self.engine, move_queued_keys)
        with transaction(self.engine) as tx:
            self.assertEqual(queue(tx), [])
            self.assertTrue(knows_game_server(tx, FIRST) and knows_game_server(tx, LATER))

    def test_two_services_that_start_at_once_both_start(self) -> None:
        self.assertEqual(self.overtaken(lambda: transact(self.engine, move_queued_keys)), 0)

    def test_a_second_start_waits_for_the_firsts_transaction(self) -> None:
        added, moved = Event(), list[int]()

        def start() -> None:
            added.wait(20)
            moved.append(transact(self.engine, move_queued_keys))

        second = Thread(target=start)
        second.start()

        def first(tx: Connection) -> None:
            add_game_server_key(tx, FIRST)
            added.set()
            second.join(0.1)  # the thread cannot finish, because it waits for this transaction

        transact(self.engine, first)
        second.join(20)
        self.assertEqual(moved, [1])
