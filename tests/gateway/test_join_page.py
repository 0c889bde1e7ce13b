"""The public join page: off by default, three steps, nothing loaded from elsewhere, no secrets."""

from __future__ import annotations

import base64
import hashlib
import re

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.verdicts import Page
from svcserver.gateway.join_page import CHECK_EVERY_S, PATIENCE_S, LauncherCheck, join_page
from tests.edge.wires import Edge, Upstream, gateway


def ask(edge: Edge, method: str = "GET", path: str = "/join") -> tuple[int, bytes, bytes]:
    reply, _ = edge.ask(f"{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]), head, body


class JoinPageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.edge = gateway()
        self.edge.policy.page = join_page(launcher=True)

    def test_the_page_is_answered_by_the_gateway_itself(self) -> None:
        for path in ("/join", "/join/", "/Join", "/join?x=1"):
            status, head, body = ask(self.edge, path=path)
            self.assertEqual(status, 200, path)
            self.assertIn(b"text/html", head)
            self.assertEqual(body.count(b"<li>"), 3)
        self.assertEqual(self.edge.upstream.seen(), [])

    def test_a_head_has_no_body_and_a_post_goes_to_the_metagame(self) -> None:
        status, head, body = ask(self.edge, "HEAD")
        self.assertEqual((status, body), (200, b""))
        self.assertIn(b"Content-Length: ", head)
        ask(self.edge, "POST")
        self.assertEqual(len(self.edge.upstream.seen()), 1)

    def test_the_connection_goes_on(self) -> None:
        wire = self.edge.send(b"GET /join HTTP/1.1\r\nHost: h\r\n\r\n" * 2)
        self.assertEqual(wire.take().count(b"HTTP/1.1 200 OK"), 2)

    def test_without_the_setting_it_is_any_path_of_the_metagame(self) -> None:
        edge = gateway()
        ask(edge)
        self.assertEqual(len(edge.upstream.seen()), 1)

    def test_the_page_loads_nothing_but_its_own_style(self) -> None:
        _, head, body = ask(self.edge)
        self.assertIsNone(re.search(rb"<script|src=|https?://|style=|<form|@import|url\(", body))
        [style] = re.findall(rb"<style>(.*?)</style>", body, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style).digest())
        self.assertIn(b"default-src 'none'; style-src 'sha256-" + digest + b"'", head)
        self.assertNotIn(b"Set-Cookie", head)

    def test_the_page_links_to_a_launcher_only_if_there_is_one(self) -> None:
        for has in (True, False):
            content = join_page(launcher=has).content
            self.assertEqual(content.count(b"/content/v1/launcher"), 2 if has else 0)
            self.assertEqual(content.count(b"<li>"), 3)
            self.assertIn(b"he person who invited you", content)
            self.assertNotIn(b"<!--", content)


class LauncherLookTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.content = Upstream(self.clock)
        self.shown: list[Page] = []
        self.check = LauncherCheck(self.clock, self.content.pool, self.shown.append)

    def links(self) -> list[bool]:
        """Return, for each displayed page, whether it links to the launcher."""
        return [b"/content/v1/launcher" in page.content for page in self.shown]

    def test_the_page_is_shown_anew_when_the_answer_changes(self) -> None:
        self.check.startService()
        for number, (status, links) in enumerate(
            (
                (b"HTTP/1.1 404 Not Found\r\n\r\n", [False]),
                (b"HTTP/1.1 200 OK\r\n", [False, True]),
                (b"HTTP/1.1 200 OK\r\n", [False, True]),
                (b"HTTP/1.1 503 Service Unavailable\r\n", [False, True, False]),
                (b"what is that, it is nothing of HTTP", [False, True, False]),
            )
        ):
            requests = self.content.seen()[number]
            self.assertEqual(requests.target, b"/content/v1/launcher/svc-launcher.pyz")
            self.assertEqual((requests.method, requests.value(b"host")), (b"HEAD", b"localhost"))
            self.content.say(status[:7])
            self.content.say(status[7:])
            self.assertEqual(self.links(), links)
            self.assertEqual(self.content.wires[-1].ended, "cut")
            self.clock.advance(CHECK_EVERY_S)
        self.check.stopService()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_content_server_that_does_not_answer_changes_nothing(self) -> None:
        self.check.startService()
        self.content.say(b"HTTP/1.1 200 OK\r\n")
        self.clock.advance(CHECK_EVERY_S)
        self.content.wires[-1].loseConnection()
        self.clock.advance(CHECK_EVERY_S)
        self.clock.advance(PATIENCE_S)
        self.assertEqual(self.content.wires[-1].ended, "cut")
        self.content.silent = True  # no connection comes up
        self.clock.advance(CHECK_EVERY_S - PATIENCE_S)
        self.clock.advance(PATIENCE_S)
        self.content.silent, self.content.down = False, True
        self.clock.advance(CHECK_EVERY_S)
        self.assertEqual(self.links(), [True])
        self.content.down = False
        self.clock.advance(CHECK_EVERY_S)
        self.content.say(b"HTTP/1.1 404 Not Found\r\n")
        self.assertEqual(self.links(), [True, False])
        self.clock.advance(CHECK_EVERY_S)
        self.check.stopService()  # while it waits for an answer
        self.assertEqual(self.content.wires[-1].ended, "cut")
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.flushLoggedErrors(), [])
