"""If a log's reader stalls, nothing is blocked; dropped lines are counted and reported."""

import errno
import os
import re
import threading
import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.counters import Counted
from svcserver.web import logwriter
from svcserver.web.logs import JsonLines, LogLines
from svcserver.web.logwriter import PIECE, Backlog, LogWriter
from svcserver.web.serving import TopService
from tests.support.processes import PATIENCE_S


class BacklogTests(SynchronousTestCase):
    def test_lines_leave_in_the_order_in_which_they_came(self) -> None:
        backlog = Backlog()
        for line in (b"one\n", b"two\nthree\n"):
            backlog.put(line)
        batch = backlog.take()
        self.assertEqual((batch.dropped, batch.data), (0, b"one\ntwo\nthree\n"))
        self.assertEqual(len(backlog), 0)

    def test_a_full_backlog_drops_the_oldest_lines_and_counts_them(self) -> None:
        backlog = Backlog(most=8)
        for line in (b"a\nb\n", b"ccc\n", b"ddd\n"):
            backlog.put(line)
        batch = backlog.take()
        self.assertEqual((batch.dropped, batch.data), (2, b"ccc\nddd\n"))
        backlog.put(b"e\n")
        self.assertEqual(backlog.take().dropped, 0)
        self.assertEqual(backlog.dropped, 2)

    def test_the_last_lines_of_a_large_piece_are_kept(self) -> None:
        backlog = Backlog(most=8)
        backlog.put(b"first\nabc\ndef\n")
        batch = backlog.take()
        self.assertEqual((batch.dropped, batch.data), (1, b"abc\ndef\n"))
        backlog.put(b"a line too long\n")
        backlog.put(b"no end" * 9)
        self.assertEqual((len(backlog), backlog.dropped), (0, 2))

    def test_failed_lines_are_reported_with_those_dropped_before(self) -> None:
        backlog = Backlog(most=4)
        backlog.put(b"a\n\n\n\n")
        backlog.put(b"b\nc\n")
        backlog.failed(backlog.take())
        backlog.put(b"d\n")
        batch = backlog.take()
        self.assertEqual((batch.dropped, batch.data), (6, b"d\n"))

    @given(st.lists(st.integers(0, 40), max_size=40), st.integers(1, 60))
    def test_the_backlog_is_bounded_and_loses_no_count(self, sizes: list[int], most: int) -> None:
        backlog, written = Backlog(most), 0
        for size in sizes:
            backlog.put(b"x" * size + b"\n")
        while backlog:
            written += backlog.take().data.count(b"\n")
        self.assertLessEqual(written, most)
        self.assertEqual(written + backlog.dropped, len(sizes))

    def test_the_backlog_is_taken_in_pieces(self) -> None:
        backlog = Backlog()
        for _ in range(5):
            backlog.put(b"x" * (PIECE // 2) + b"\n")
        self.assertEqual(backlog.take().data.count(b"\n"), 2)


def until(what: Callable[[], bool]) -> None:
    """Let the writing thread run until the condition is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


class WriterTests(SynchronousTestCase):
    """Tests on real pipes, which the test reads."""

    def setUp(self) -> None:
        self.read, self.write = os.pipe()
        self.addCleanup(os.close, self.read)
        self.file = os.fdopen(self.write, "w")
        self.addCleanup(self.file.close)
        made = logwriter.writer_to(self.file)
        assert made is not None
        self.writer = made
        self.writer.backlog.most = 10_000

    def read_until(self, end: bytes) -> bytes:
        result = b""
        while not result.endswith(end):
            result += os.read(self.read, 65536)
        return result

    def test_a_reader_that_stalls_stops_nobody(self) -> None:
        line = "x" * 999 + "\n"
        for _ in range(1000):  # a pipe holds 64 KiB
            self.writer.write(line)
        self.writer.write("newest\n")
        self.assertGreater(self.writer.dropped(), 800)
        dropped = self.writer.dropped()
        result = self.read_until(b"newest\n")
        self.assertEqual(result.count(line.encode()), 1000 - dropped)
        reported = re.findall(rb"^(\d+) log lines were dropped$", result, re.M)
        self.assertEqual(sum(int(count) for count in reported), dropped)

    def test_no_line_is_dropped_while_the_output_is_read(self) -> None:
        for number in range(50):
            self.writer.write(f"line {number}\n")
        result = self.read_until(b"line 49\n")
        self.assertEqual(result, b"".join(b"line %d\n" % number for number in range(50)))

    def test_the_end_waits_until_the_last_lines_are_read(self) -> None:
        for _ in range(100):
            self.writer.write("x" * 999 + "\n")
        result: list[bytes] = []
        reader = threading.Thread(target=lambda: result.append(self.read_until(b"last\n")))
        self.writer.write("last\n")
        reader.start()
        self.writer.end()
        reader.join(PATIENCE_S)
        self.assertTrue(result[0].endswith(b"x\nlast\n"))
        self.writer.write("and this\n")
        self.writer.flush()
        self.assertEqual(os.read(self.read, 100), b"and this\n")

    def test_the_end_of_a_process_waits_for_nobody_for_ever(self) -> None:
        self.patch(logwriter, "LAST_WORDS_S", 0.05)
        for _ in range(100):
            self.writer.write("x" * 999 + "\n")
        began = time.monotonic()
        self.writer.end()
        for _ in range(100):
            self.writer.write("more\n")
            self.writer.flush()
        self.assertLess(time.monotonic() - began, 5)


class FullDiskTests(SynchronousTestCase):
    def test_lines_lost_on_a_full_disk_are_reported_later(self) -> None:
        disk: list[bytes] = []
        full = [True]

        def send(data: memoryview) -> int:
            if full[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            disk.append(bytes(data[:3]))  # the disk has stored fewer bytes than it was given
            return len(disk[-1])

        writer = LogWriter(send)
        for number in range(3):
            writer.write("[deploy] lost\n")
            until(lambda number=number: writer.dropped() == number + 1)  # type: ignore[misc]
        full[0] = False
        writer.write("[deploy] again\n")
        until(lambda: b"".join(disk).endswith(b"again\n"))
        self.assertEqual(b"".join(disk), b"3 log lines were dropped\n[deploy] again\n")


class LinesTests(SynchronousTestCase):
    def test_the_line_about_dropped_lines_has_the_usual_format(self) -> None:
        writer = LogWriter(len)
        JsonLines(writer, err=writer, writers=[writer])
        self.assertIn('"message":"7 log lines were dropped', writer.line_of_dropped(7))
        LogLines(writer, writers=[writer])
        self.assertIn(
            "Z warn web.logs: 7 log lines were dropped: nobody", writer.line_of_dropped(7)
        )

    def test_a_service_counts_dropped_log_lines_in_its_metrics(self) -> None:
        writer = LogWriter(len, backlog=Backlog(most=2))
        top = TopService(LogLines(writer, writers=[writer]))
        writer.backlog.put(b"a\nb\nc\n")
        counts = top.counters.by_reason(Counted.DROPPED_LOG_LINES)
        self.assertEqual(counts, {"unread": 2})

    def test_output_and_errors_in_one_place_have_one_writer(self) -> None:
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        first, second = os.fdopen(write, "w"), os.fdopen(os.dup(write), "w")
        self.addCleanup(first.close)
        self.addCleanup(second.close)
        self.patch(logwriter.sys, "stdout", first)
        self.patch(logwriter.sys, "stderr", second)
        out, err, mine = logwriter.writers()
        self.assertIs(out, err)
        self.assertEqual(mine, [out])
        self.patch(logwriter.sys, "stderr", None)
        out, err, mine = logwriter.writers()
        self.assertIsInstance(err, logwriter.Nowhere)
        self.assertEqual(mine, [out])
