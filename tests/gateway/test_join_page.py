"""The one public page: off by default, three steps, with nothing to load or to steal."""

from __future__ import annotations

import base64
import hashlib
import re

from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.join_page import join_page
from tests.edge.wires import Edge, gateway


def ask(edge: Edge, method: str = "GET", path: str = "/join") -> tuple[int, bytes, bytes]:
    said, _ = edge.ask(f"{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    head, _, body = said.partition(b"\r\n\r\n")
    return int(head.split()[1]), head, body


class JoinPageTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.edge = gateway()
        self.edge.policy.page = join_page()

    def test_it_is_answered_by_the_gateway_itself(self) -> None:
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
        wire = self.edge.connect()
        wire.protocol.dataReceived(b"GET /join HTTP/1.1\r\nHost: h\r\n\r\n" * 2)
        self.assertEqual(wire.take().count(b"HTTP/1.1 200 OK"), 2)

    def test_without_the_setting_it_is_any_path_of_the_metagame(self) -> None:
        edge = gateway()
        ask(edge)
        self.assertEqual(len(edge.upstream.seen()), 1)

    def test_it_loads_nothing_and_its_style_is_the_one_that_is_allowed(self) -> None:
        _, head, body = ask(self.edge)
        self.assertIsNone(re.search(rb"<script|src=|https?://|style=|<form|@import|url\(", body))
        [style] = re.findall(rb"<style>(.*?)</style>", body, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style).digest())
        self.assertIn(b"default-src 'none'; style-src 'sha256-" + digest + b"'", head)
        self.assertNotIn(b"Set-Cookie", head)
