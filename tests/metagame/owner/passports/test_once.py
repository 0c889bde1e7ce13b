"""A passport counts once even if several imports run concurrently, on both databases."""

import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, select, text
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db import migrations
from svcserver.db.engine import database_url, is_sqlite, make_engine
from svcserver.db.transaction import transact
from svcserver.kernel.refusals import Conflict
from svcserver.metagame.accounts.audit import AuditEntry, RefusedWrite, Trace, audited
from svcserver.metagame.accounts.rules import register
from svcserver.metagame.accounts.store import ACCOUNTS, SqlAccounts
from svcserver.metagame.owner.passports.acts import take_in, trust
from svcserver.metagame.owner.passports.rules import Carried, Passport, Taken, Terms
from svcserver.metagame.owner.passports.store import IMPORTS
from tests.support.game import settings
from tests.support.postgres import fresh_database
from tests.support.processes import eventually

NAMES = ("Bob_1", "Cy_1")
SIGNER = "a" * 64


def waits_for_a_lock(engine: Engine) -> bool:
    """Return whether a transaction in this PostgreSQL database waits for a lock."""
    query = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with engine.connect() as tx:
        return bool(tx.execute(text(query)).scalar_one())


class Once:
    """The tests that run on both databases."""

    make: Callable[[Any], Engine]
    assertEqual: Any
    assertIsInstance: Any
    assertFalse: Any
    addCleanup: Any

    def ready(self) -> Engine:
        """Return a database that has two accounts and trusts Ann's host."""
        engine = self.make()
        self.addCleanup(engine.dispose)
        migrations.upgrade(engine)
        for name in NAMES:
            transact(
                engine,
                lambda tx, name=name: register(SqlAccounts(tx), "OPEN", name, None, time.time()),
            )
        transact(engine, lambda tx: trust(SIGNER, "Olga", time.time)(tx, Trace()))
        return engine

    def take(self, engine: Engine, name: str, subject: str, notes: int = 70) -> Taken:
        """Import a passport as ``svcctl passport import`` does."""
        characters = [Carried("Ann", '{"level":7}')]
        passport = Passport(SIGNER, subject, "Ann_1", "h", {}, characters, notes=notes)
        act = take_in(passport, name, {}, Terms.for_imports(settings()), time.time)
        return transact(
            engine, audited(AuditEntry("owner", "passport import", name), time.time, act)
        )

    def test_one_of_many_simultaneous_imports_counts(self) -> None:
        engine = self.ready()
        for subject in ("s1", "s2", "s3"):
            together = threading.Barrier(4)

            def run(name: str, subject: str = subject, together: Any = together) -> Taken:
                together.wait(30)
                return self.take(engine, name, subject)

            with ThreadPoolExecutor(4) as threads:
                started = [threads.submit(run, name) for name in NAMES * 2]
            failures = [attempt.exception() for attempt in started]
            self.assertEqual(failures.count(None), 1, failures)
            for why in failures:
                if why is not None:
                    self.assertIsInstance(why, RefusedWrite)
                    self.assertIsInstance(why.why, Conflict)
        with engine.connect() as tx:
            rows = tx.execute(select(IMPORTS.c.subject, IMPORTS.c.account_id)).all()
            notes = dict(tx.execute(select(ACCOUNTS.c.id, ACCOUNTS.c.notes)).all())
        self.assertEqual(sorted(row[0] for row in rows), ["s1", "s2", "s3"])
        winners = {row[1] for row in rows}
        self.assertEqual({name for name, held in notes.items() if held == 70}, winners)


class SqliteTests(Once, SynchronousTestCase):
    def make(self) -> Engine:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        return make_engine(database_url(f"sqlite:///{folder}/svc.db"))


@pytest.mark.live
class PostgresTests(Once, SynchronousTestCase):
    def make(self) -> Engine:
        return make_engine(database_url(fresh_database()))

    def test_taking_a_passport_waits_for_the_players_running_request(self) -> None:
        """The running server locks the account's row for each request of the player."""
        engine = self.ready()
        assert not is_sqlite(engine)
        with ThreadPoolExecutor(1) as threads:
            with engine.begin() as playing:
                playing.execute(
                    select(ACCOUNTS.c.id)
                    .where(ACCOUNTS.c.username == NAMES[0])
                    .with_for_update(key_share=True)
                )
                taking: Future[Taken] = threads.submit(self.take, engine, NAMES[0], "s1", 0)
                eventually(lambda: waits_for_a_lock(engine), 20.0)
                self.assertFalse(taking.done())
            self.assertEqual(taking.result(30).characters, 1)
