"""LIVE_URL: what may stand there, and who sees the password."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.address import Address
from svcserver.board.factory import live_url
from svcserver.board.memory import MemoryBoard
from svcserver.board.valkey import ValkeyBoard


class LiveUrlTests(SynchronousTestCase):
    def test_memory_needs_nothing_that_runs(self) -> None:
        url = live_url(" memory: ")
        board, parts = url.board(lambda: 0.0, Clock())
        self.assertIsInstance(board, MemoryBoard)
        self.assertEqual((parts, url.in_memory, str(url)), ((), True, "memory:"))

    def test_an_engine_by_any_of_its_names(self) -> None:
        for text in ("valkey://h:1", "redis://h:1", "valkeys://h:1/3", "rediss://u:p@h"):
            board, parts = live_url(text).board(lambda: 0.0, Clock())
            self.assertIsInstance(board, ValkeyBoard, text)
            self.assertEqual((len(parts), live_url(text).in_memory), (1, False), text)

    def test_its_parts(self) -> None:
        expected = Address("h.x", 7, 3, "ann", "p@:/ss", tls=True)
        self.assertEqual(Address.read("valkeys://ann:p%40%3A%2Fss@h.x:7/3"), expected)
        self.assertEqual(Address.read("valkey://:p@[::1]"), Address("::1", 6379, 0, "", "p"))

    def test_what_it_cannot_be(self) -> None:
        nothing = ("", "memory", "http://h", "valkey://", "valkey://h?a=1")
        parts = (
            "valkey://h:x",
            "valkey://h:99999",
            "valkey://h/x",
            "valkey://h/1/2",
            "valkey://a@h",
        )
        for text in nothing + parts:
            self.assertRaises(ValueError, live_url, text)

    def test_nobody_sees_the_password(self) -> None:
        url = live_url("valkey://ann:secret@h:1/2")
        self.assertEqual(str(url), "valkey://ann:***@h:1/2")
        self.assertEqual(str(live_url("valkey://ann:sec:ret@h:1")), "valkey://ann:***@h:1")
        self.assertEqual(str(live_url("valkey://:sec:ret@h:1")), "valkey://:***@h:1")
        with self.assertRaises(ValueError) as refused:
            live_url("valkey://ann:secret/@h")
        self.assertNotIn("secret", str(refused.exception))
        for shown in (repr(url), repr(Address.read("valkey://ann:secret@h:1/2"))):
            self.assertNotIn("secret", shown)
