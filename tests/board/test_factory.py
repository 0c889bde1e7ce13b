"""The valid values of LIVE_URL, and the output in which its password must not appear."""

import tempfile
from pathlib import Path

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.address import EngineAddress, authorities
from svcserver.board.factory import live_url
from svcserver.board.memory import MemoryBoard
from svcserver.board.valkey import ValkeyBoard
from tests.support.authority import Authority


class LiveUrlTests(SynchronousTestCase):
    def test_a_memory_url_gives_a_board_without_an_engine(self) -> None:
        url = live_url(" memory: ")
        board, parts = url.board(lambda: 0.0, Clock())
        self.assertIsInstance(board, MemoryBoard)
        self.assertEqual((parts, url.in_memory, str(url)), ((), True, "memory:"))

    def test_valkey_and_redis_urls_use_the_valkey_board(self) -> None:
        for text in ("valkey://h:1", "redis://h:1", "valkeys://h:1/3", "rediss://u:p@h"):
            board, parts = live_url(text).board(lambda: 0.0, Clock())
            self.assertIsInstance(board, ValkeyBoard, text)
            self.assertEqual((len(parts), live_url(text).in_memory), (1, False), text)

    def test_a_url_gives_host_port_database_user_and_password(self) -> None:
        expected = EngineAddress("h.x", 7, 3, "ann", "p@:/ss", tls=True)
        self.assertEqual(EngineAddress.parse("valkeys://ann:p%40%3A%2Fss@h.x:7/3"), expected)
        self.assertEqual(
            EngineAddress.parse("valkey://:p@[::1]"), EngineAddress("::1", 6379, 0, "", "p")
        )

    def test_a_ca_in_the_url_names_the_file_of_the_authority(self) -> None:
        address = EngineAddress.parse("valkeys://:p@h:1/2?ca=/etc/live-ca.pem")
        expected = EngineAddress("h", 1, 2, "", "p", tls=True, ca=Path("/etc/live-ca.pem"))
        self.assertEqual(address, expected)
        self.assertIsNone(EngineAddress.parse("valkeys://h").ca)

    def test_an_authority_that_cannot_be_used_is_named_at_the_start(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "no.pem").write_text("no certificate")
        (folder / "bytes.pem").write_bytes(b"\xff")
        for name, what in (("gone.pem", "cannot be read"), ("no.pem", "PEM"), ("bytes.pem", "PEM")):
            with self.assertRaises(ValueError) as refused:
                live_url(f"valkeys://h?ca={folder / name}")
            self.assertIn(what, str(refused.exception))
            self.assertIn(name, str(refused.exception))
        made = Authority(folder).file
        made.write_text(made.read_text() * 2)
        self.assertEqual(len(authorities(made)), 2)
        self.assertEqual(live_url(f"valkeys://h?ca={made}").address.ca, made)

    def test_an_invalid_url_is_refused(self) -> None:
        schemes = "memory http://h valkey:// valkey://h?a=1 valkey://h?ca=/x"
        authorities = "valkeys://h?ca=x valkeys://h?ca=/x&ca=/y valkeys://h?b"
        parts = "valkey://h:x valkey://h:99999 valkey://h/x valkey://h/1/2 valkey://a@h"
        for text in ("", *f"{schemes} {authorities} {parts}".split()):
            self.assertRaises(ValueError, live_url, text)

    def test_the_password_in_a_url_is_never_shown(self) -> None:
        url = live_url("valkey://ann:secret@h:1/2")
        self.assertEqual(str(url), "valkey://ann:***@h:1/2")
        self.assertEqual(str(live_url("valkey://ann:sec:ret@h:1")), "valkey://ann:***@h:1")
        self.assertEqual(str(live_url("valkey://:sec:ret@h:1")), "valkey://:***@h:1")
        with self.assertRaises(ValueError) as refused:
            live_url("valkey://ann:secret/@h")
        self.assertNotIn("secret", str(refused.exception))
        for shown in (repr(url), repr(EngineAddress.parse("valkey://ann:secret@h:1/2"))):
            self.assertNotIn("secret", shown)
