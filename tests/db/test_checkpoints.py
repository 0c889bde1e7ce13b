"""Checkpoints move SQLite's log into the database in parts, on schedule and in a thread."""

import sqlite3
import tempfile
from pathlib import Path
from typing import Any

from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.engine import database_url, make_engine
from svcserver.db.sqlite import END, MOVE, PIECE, Checkpoints, CheckpointSchedule
from tests.support.real_ledger import QueueReactor


class ScheduleTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.schedule = CheckpointSchedule(piece=100, end=1000)

    def piece(self, pages: int, done: int | None = None) -> None:
        self.schedule.begin()
        self.schedule.moved(pages, pages if done is None else done)

    def test_a_checkpoint_begins_only_after_enough_commits(self) -> None:
        self.assertFalse(self.schedule.committed(24))
        self.assertTrue(self.schedule.committed(1), "four pages a job are supposed at first")

    def test_a_checkpoint_begins_sooner_if_jobs_change_more_pages(self) -> None:
        self.schedule.committed(10)
        self.piece(200)
        self.assertFalse(self.schedule.committed(4))
        self.assertTrue(self.schedule.committed(1), "twenty pages a job were seen")
        self.piece(205)
        self.assertFalse(self.schedule.committed(99))
        self.assertTrue(self.schedule.committed(1), "a job is never less than a page")

    def test_jobs_that_commit_while_a_piece_is_moved_count_for_the_next(self) -> None:
        self.schedule.committed(10)
        self.schedule.begin()
        self.schedule.committed(5)
        self.schedule.moved(200, 200)
        self.assertTrue(self.schedule.committed(0))

    def test_after_a_log_restart_pages_are_counted_from_zero(self) -> None:
        self.schedule.committed(10)
        self.piece(900)
        self.schedule.committed(10)
        self.piece(50)
        self.assertFalse(self.schedule.committed(19))
        self.assertTrue(self.schedule.committed(1), "five pages a job")

    def test_a_long_log_can_be_ended_once_all_of_it_was_moved(self) -> None:
        for pages, done, can_end in ((999, 999, False), (1000, 999, False), (1000, 1000, True)):
            self.piece(pages, done)
            self.assertEqual(self.schedule.can_end, can_end)
        self.schedule.ended()
        self.assertFalse(self.schedule.can_end)

    def test_a_long_read_does_not_cause_a_checkpoint_at_every_commit(self) -> None:
        self.schedule.committed(1)
        self.piece(5000, 0)
        self.schedule.committed(1000)
        self.piece(5000, 0)
        self.assertFalse(self.schedule.committed(99))


class CheckpointsTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "svc.db")
        self.engine = make_engine(database_url(f"sqlite:///{self.file}"))
        self.addCleanup(self.engine.dispose)
        self.reactor = QueueReactor()
        self.connection = self.engine.connect()
        self.writer: Any = self.connection.connection.dbapi_connection
        self.writer.execute("PRAGMA wal_autocheckpoint=0")
        self.writer.execute("CREATE TABLE things (data BLOB)")
        connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self.checkpoints = Checkpoints(connection, self.file, self.reactor)

    def write(self, pages: int) -> None:
        self.writer.execute("INSERT INTO things VALUES (zeroblob(?))", (pages * 16_384,))

    def in_log(self) -> int:
        pages: int = self.writer.execute(MOVE).fetchone()[1]
        return pages

    def ended(self) -> None:
        self.checkpoints.start()
        self.connection.close()
        self.reactor.wait_for(self.checkpoints.stop())

    def test_a_piece_is_moved_into_the_file_without_the_writer(self) -> None:
        self.write(PIECE)
        self.assertLess(self.file.stat().st_size, PIECE * 16_384)
        self.checkpoints._piece()
        self.assertGreater(self.file.stat().st_size, PIECE * 16_384)
        self.ended()

    def test_the_writer_restarts_a_log_that_grew_too_long(self) -> None:
        for _ in range(3):
            self.write(END // 2)
            self.checkpoints._piece()
        self.checkpoints.after_commit(1, self.writer)
        self.write(1)
        self.assertLess(self.in_log(), PIECE)
        self.ended()

    def test_a_read_that_takes_long_keeps_the_log_and_nobody_waits(self) -> None:
        reader = sqlite3.connect(self.file, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM things").fetchone()
        self.write(END)
        self.checkpoints._piece()
        self.checkpoints.after_commit(1, self.writer)
        self.assertGreater(self.in_log(), END)
        reader.close()
        self.checkpoints._piece()
        self.checkpoints.after_commit(1, self.writer)
        self.write(1)
        self.assertLess(self.in_log(), PIECE)
        self.ended()

    def test_a_failed_checkpoint_is_logged_once_and_writes_go_on(self) -> None:
        class Broken:
            def execute(self, sql: str) -> Any:
                raise sqlite3.OperationalError("disk I/O error")

        self.write(END)
        self.checkpoints._piece()
        raw, self.checkpoints._raw = self.checkpoints._raw, Broken()
        self.checkpoints._piece()
        self.checkpoints.after_commit(1, Broken())
        self.write(1)
        self.checkpoints._raw = raw
        with capturedLogs() as events:
            self.ended()
        self.assertEqual(
            [formatEvent(event) for event in events],
            ["SQLite's write-ahead log cannot be copied into the database file: disk I/O error"],
        )
