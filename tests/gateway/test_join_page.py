"""The public join page: off by default, three steps, nothing loaded from elsewhere, no secrets."""

import base64
import hashlib
import re

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.joining import LAUNCHER_FILE, LAUNCHER_FILES, WINDOWS_FILE
from svcserver.gateway.join_page import (
    CHECK_EVERY_S,
    PATIENCE_S,
    JoinPages,
    LauncherCheck,
    join_pages,
)
from tests.edge.wires import Edge, Upstream, gateway

MISSING, THERE = b"HTTP/1.1 404 Not Found\r\n\r\n", b"HTTP/1.1 200 OK\r\n"
PATH = "/content/v1/launcher/"
WINDOWS = "User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) Gecko/20100101\r\n"
LINUX = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101\r\n"


def ask(edge: Edge, method: str = "GET", path: str = "/join") -> tuple[int, bytes, bytes]:
    reply, _ = edge.ask(f"{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]), head, body


class JoinPageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.edge = gateway()
        self.edge.policy.pages = join_pages(LAUNCHER_FILES)

    def test_the_page_is_answered_by_the_gateway_itself(self) -> None:
        for path in ("/join", "/join/", "/Join", "/join?x=1"):
            status, head, body = ask(self.edge, path=path)
            self.assertEqual(status, 200, path)
            self.assertIn(b"text/html", head)
            self.assertEqual(body.count(b"<li>"), 3)
        self.assertEqual(self.edge.upstream.take_requests(), [])

    def test_a_head_has_no_body_and_a_post_goes_to_the_metagame(self) -> None:
        status, head, body = ask(self.edge, "HEAD")
        self.assertEqual((status, body), (200, b""))
        self.assertIn(b"Content-Length: ", head)
        ask(self.edge, "POST")
        self.assertEqual(len(self.edge.upstream.take_requests()), 1)

    def test_two_requests_for_the_page_on_one_connection_are_answered(self) -> None:
        wire = self.edge.send(b"GET /join HTTP/1.1\r\nHost: h\r\n\r\n" * 2)
        self.assertEqual(wire.take().count(b"HTTP/1.1 200 OK"), 2)

    def test_without_the_setting_join_goes_to_the_metagame(self) -> None:
        edge = gateway()
        ask(edge)
        self.assertEqual(len(edge.upstream.take_requests()), 1)

    def test_the_page_loads_nothing_but_its_own_style(self) -> None:
        _, head, body = ask(self.edge)
        self.assertIsNone(re.search(rb"<script|src=|https?://|style=|<form|@import|url\(", body))
        [style] = re.findall(rb"<style>(.*?)</style>", body, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style).digest())
        self.assertIn(b"default-src 'none'; style-src 'sha256-" + digest + b"'", head)
        self.assertNotIn(b"Set-Cookie", head)

    def test_windows_browser_gets_the_windows_program_first(self) -> None:
        zip_link, pyz_link = (f'"{PATH}{name}"'.encode() for name in LAUNCHER_FILES)
        for agent, first in ((WINDOWS, zip_link), (LINUX, pyz_link), ("", pyz_link)):
            reply, _ = self.edge.ask(f"GET /join HTTP/1.1\r\nHost: h\r\n{agent}\r\n".encode())
            self.assertEqual(re.findall(rb'"/content/v1/launcher/[^"]*"', reply)[0], first)
            self.assertEqual(
                {zip_link, pyz_link}, set(re.findall(rb'"/content[^"]*/svc[^"]*"', reply))
            )
            self.assertIn(b"Vary: User-Agent\r\n", reply)

    def test_the_page_links_only_to_the_offered_files(self) -> None:
        for offered in ((), (LAUNCHER_FILE,), (WINDOWS_FILE,), LAUNCHER_FILES):
            pages = join_pages(offered)
            for content in (pages.windows.content, pages.others.content):
                links = {f"{PATH}{name}" for name in offered} | ({PATH[:-1]} if offered else set())
                targets = re.findall(r'"(/content[^"]*)"', content.decode())
                self.assertEqual(sorted(targets), sorted(links))
                self.assertEqual(content.count(b"<li>"), 3)
                self.assertIn(b"he person who invited you", content)
                self.assertNotIn(b"<!--", content)


class LauncherLookTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.content = Upstream(self.clock)
        self.shown: list[JoinPages] = []
        self.check = LauncherCheck(self.clock, self.content.pool, self.shown.append)

    def links(self) -> list[int]:
        """Return the number of launcher files to which each displayed page links."""
        return [page.others.content.count(PATH.encode()) for page in self.shown]

    def answer(self, *statuses: bytes) -> None:
        """Answer the requests of one check, and wait for the next check."""
        for name, status in zip(LAUNCHER_FILES, statuses, strict=True):
            request, wire = self.content.take_requests()[-1], self.content.wires[-1]
            self.assertEqual(request.target, f"{PATH}{name}".encode())
            self.assertEqual((request.method, request.value(b"host")), (b"HEAD", b"localhost"))
            self.content.say(status[:7])
            self.content.say(status[7:])
            self.assertEqual(wire.ended, "cut")
        self.clock.advance(CHECK_EVERY_S)

    def test_the_page_is_shown_again_when_the_reply_changes(self) -> None:
        self.check.startService()
        for statuses, links in (
            ((MISSING, MISSING), [0]),
            ((MISSING, THERE), [0, 1]),
            ((THERE, THERE), [0, 1, 2]),
            ((THERE, THERE), [0, 1, 2]),
            ((b"HTTP/1.1 503 Service Unavailable\r\n", THERE), [0, 1, 2, 1]),
            ((b"what is that, it is nothing of HTTP", MISSING), [0, 1, 2, 1, 0]),
        ):
            self.answer(*statuses)
            self.assertEqual(self.links(), links)
        self.check.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_content_server_that_does_not_answer_changes_nothing(self) -> None:
        self.check.startService()
        self.answer(MISSING, THERE)
        self.content.wires[-1].loseConnection()
        self.clock.advance(CHECK_EVERY_S)
        self.clock.advance(PATIENCE_S)
        self.assertEqual(self.content.wires[-1].ended, "cut")
        self.content.silent = True  # no connection opens
        self.clock.advance(CHECK_EVERY_S - PATIENCE_S)
        self.clock.advance(PATIENCE_S)
        self.content.silent, self.content.down = False, True
        self.clock.advance(CHECK_EVERY_S)
        self.assertEqual(self.links(), [1])
        self.content.down = False
        self.clock.advance(CHECK_EVERY_S)
        self.answer(MISSING, MISSING)
        self.assertEqual(self.links(), [1, 0])
        self.check.stopService()  # while the check waits for an answer
        self.assertEqual(self.content.wires[-1].ended, "cut")
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.flushLoggedErrors(), [])
