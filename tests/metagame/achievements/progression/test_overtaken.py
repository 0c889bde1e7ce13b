"""A grant and a concurrent repeat of the same grant count once."""

import tempfile
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import Connection, select
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db import migrations
from svcserver.db.engine import database_url, is_sqlite, make_engine
from svcserver.db.ledger import ACROSS, Scope, Work
from svcserver.metagame.accounts.store import ACCOUNTS
from tests.support.game import GAME_SERVER_KEY, Game
from tests.support.postgres import fresh_database
from tests.support.real_ledger import RealLedger

TRACK = "season09b"


class Overtaken(RealLedger):
    """A ledger whose next write competes with the transaction ``rival``.

    On PostgreSQL, the rival starts during the write and waits for the account's row lock. On
    SQLite, which has one writer, the rival commits before the write begins.
    """

    rival: Callable[[], Any] | None = None

    def write(self, work: Work[Any], scope: Scope = ACROSS) -> Deferred[Any]:
        """See ``Ledger.write``."""
        rival, self.rival = self.rival, None
        if rival is None or is_sqlite(self.engine):
            if rival is not None:
                rival()
            return super().write(work, scope)
        thread = Thread(target=rival)

        def overtaken(tx: Connection) -> Any:
            tx.execute(select(ACCOUNTS.c.id)).all()
            if thread.ident is None:
                thread.start()
                thread.join(0.2)  # in vain
            return work(tx)

        done = super().write(overtaken, scope)
        thread.join(20)
        return done


class OvertakenTests(SynchronousTestCase):
    def url(self) -> str:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return f"sqlite:///{folder.name}/svc.db"

    def game(self, kind: Any) -> Game:
        engine = make_engine(database_url(self.where))
        self.addCleanup(engine.dispose)
        return Game(self, ledger=kind(self, engine), PROGRESSION_MODE="real")

    def setUp(self) -> None:
        self.where = self.url()
        engine = make_engine(database_url(self.where))
        migrations.upgrade(engine)
        engine.dispose()
        self.slow, self.quick = self.game(Overtaken), self.game(RealLedger)
        self.ann = self.slow.player("Ann_1")

    def grant(self, game: Game) -> int:
        sent = {"progress_tracks": [{"progression_id": TRACK, "progress": 7}]}
        path = f"/progression/{self.ann.id}"
        return game.browse("POST", path, game_server=GAME_SERVER_KEY, json=sent).status

    def progress(self) -> int:
        page = self.slow.browse("GET", f"/progression/{self.ann.id}/{TRACK}", token=self.ann.token)
        return int(page.json["payload"]["progress"])

    def test_a_repeat_stored_with_a_later_time_is_a_repeat(self) -> None:
        for ahead in (0.0, 0.004, 1.0):
            before = 0 if ahead == 0.0 else self.progress()
            self.slow.clock.advance(60)
            self.quick.clock.rightNow = self.slow.clock.seconds() + ahead
            statuses: list[int] = []
            self.slow.ledger.rival = lambda statuses=statuses: statuses.append(
                self.grant(self.quick)
            )
            self.assertEqual((self.grant(self.slow), statuses), (200, [200]))
            self.assertEqual(self.progress(), before + 7)


@pytest.mark.live
class OvertakenOnPostgresTests(OvertakenTests):
    def url(self) -> str:
        return fresh_database()
