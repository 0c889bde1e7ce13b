"""A snapshot of the live state is restored only if it is recent, complete and of this version."""

import os
import tempfile
from pathlib import Path

from attrs import frozen
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board import factory
from svcserver.board.factory import FRESH_S, BoardSnapshot
from svcserver.board.kinds import Kind
from svcserver.board.memory import MemoryBoard


@frozen
class Table:
    """An example value: the seats of a table."""

    seats: tuple[str, ...]


TABLES = Kind("tables", Table, lives_s=100.0, listed=True)
SIGNS = Kind("signs", float, lives_s=10.0)
RULES = Kind("rules", str)


class SnapshotTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "live-state.json"
        self.time = 1_000.0
        self.board = self.started()[0]

    def started(self) -> tuple[MemoryBoard, list[str]]:
        board = MemoryBoard(lambda: self.time)
        self.snapshot = BoardSnapshot(board, lambda: self.time, self.path)
        with capturedLogs() as events:
            self.snapshot.load()
        return board, [str(formatEvent(event)) for event in events]

    def fill(self) -> None:
        self.board.transact(lambda transaction: transaction.put(TABLES, "b", Table(("x",))))
        self.board.transact(lambda transaction: transaction.put(TABLES, "a", Table(("y", "z"))))
        self.board.transact(lambda transaction: transaction.put(SIGNS, "s", 5.0))
        self.board.transact(lambda transaction: transaction.put(RULES, "r", "OPEN"))

    def test_entries_to_forget_at_the_start_are_deleted(self) -> None:
        self.fill()
        self.snapshot.stopService()
        board, _ = self.started()
        board.forget_at_start((RULES, "r"), (RULES, "none"))
        result = board.transact(
            lambda transaction: (transaction.get(RULES, "r"), transaction.count(TABLES))
        )
        self.assertEqual(self.successResultOf(result), (None, 2))

    def test_entries_survive_a_clean_restart(self) -> None:
        self.fill()
        self.snapshot.stopService()
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)
        self.time += 20
        board, lines = self.started()
        self.assertEqual(lines, ["loaded the live state that was saved 20 s ago"])
        entries = self.successResultOf(
            board.transact(
                lambda transaction: (transaction.each(TABLES), transaction.get(SIGNS, "s"))
            )
        )
        self.assertEqual(entries, ([("b", Table(("x",))), ("a", Table(("y", "z")))], None))
        self.assertEqual(self.successResultOf(board.transact(lambda s: s.get(RULES, "r"))), "OPEN")
        self.assertFalse(self.path.exists())
        self.time += 85
        self.assertIsNone(self.successResultOf(board.transact(lambda s: s.get(TABLES, "a"))))

    def test_unused_entries_survive_a_second_restart(self) -> None:
        self.fill()
        for _ in range(2):
            self.snapshot.stopService()
            board, _ = self.started()
        value = self.successResultOf(
            board.transact(lambda transaction: transaction.get(TABLES, "a"))
        )
        self.assertEqual(value, Table(("y", "z")))

    def test_an_old_or_damaged_file_is_ignored_with_one_log_line(self) -> None:
        self.fill()
        self.snapshot.stopService()
        whole = self.path.read_bytes()
        for data, later, word in (
            (whole, FRESH_S + 1, "too old"),
            (whole[:-5], 0, "damaged"),
            (b"", 0, "damaged"),
            (b"[]\n{}", 0, "damaged"),
            (whole.replace(b'"form":1', b'"form":2'), 0, "another version"),
        ):
            self.path.write_bytes(data)
            self.time = 1_000.0 + later
            board, lines = self.started()
            self.assertIn(word, lines[0])
            self.assertEqual(board.held(TABLES), 0)
            self.assertFalse(self.path.exists())

    def test_a_file_that_others_may_have_written_is_not_read(self) -> None:
        self.fill()
        self.snapshot.stopService()
        whole = self.path.read_bytes()
        target = self.path.with_name("other")
        target.write_bytes(whole)

        def linked() -> None:
            self.path.symlink_to(target)

        def writable() -> None:
            self.path.write_bytes(whole)
            self.path.chmod(0o666)

        def pipe() -> None:
            os.mkfifo(self.path)

        def large() -> None:
            self.patch(factory, "MOST_BYTES", 10)
            self.patch(factory, "HEAD_BYTES", 10)
            self.path.write_bytes(whole)

        for make in (linked, writable, pipe, large):
            self.path.unlink(missing_ok=True)
            make()
            board, lines = self.started()
            self.assertIn("the saved live state was not loaded", lines[0], make.__name__)
            self.assertEqual(board.held(TABLES), 0)
            self.assertFalse(self.path.is_symlink() or self.path.exists())

    def test_an_existing_file_is_replaced_and_not_written_to(self) -> None:
        fresh = self.path.with_suffix(".new")
        fresh.write_bytes(b"")
        fresh.chmod(0o666)
        self.snapshot.stopService()
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)

    def test_entries_of_another_shape_are_ignored(self) -> None:
        self.fill()
        self.snapshot.stopService()
        board, _ = self.started()
        changed = Kind("tables", dict[str, int])
        with capturedLogs() as events:
            self.assertIsNone(self.successResultOf(board.transact(lambda s: s.get(changed, "a"))))
        self.assertEqual(len(events), 1)
