"""Where an alert's connection goes: to the address that was checked, and nowhere after that.

The wire is one end of a pair of sockets, on whose other end the receiver's answer lies ready.
"""

from __future__ import annotations

import socket
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.secrets import Secret
from svcserver.stack.alerts import delivering
from svcserver.stack.alerts.channels import Channel
from svcserver.stack.alerts.delivering import NotDelivered, deliver
from tests.stack.alerts.test_rules import DOWN
from tests.support.proves import proves

PUBLIC, ANOTHER, INSIDE = "198.41.0.4", "2606:4700::1111", "169.254.169.254"
GOOD = b"HTTP/1.1 204 No Content\r\n\r\n"
MAIL = b"220 a\r\n250 a\r\n250 ok\r\n250 ok\r\n354 go\r\n250 kept\r\n221 bye\r\n"


class Network:
    """Names that mean another address at each look, and receivers that answer the same."""

    def __init__(self, test: SynchronousTestCase, answer: bytes, *meanings: str) -> None:
        self.test, self.answer, self.meanings = test, answer, list(meanings)
        self.looked: list[str] = []
        self.connected: list[tuple[str, int]] = []
        self.others: list[socket.socket] = []
        test.patch(delivering.socket, "getaddrinfo", self.look)
        test.patch(delivering.socket, "create_connection", self.connect)

    def look(self, name: str, port: int, *_: Any, **__: Any) -> list[Any]:
        self.looked.append(name)
        address = self.meanings.pop(0) if self.meanings else INSIDE
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    def connect(self, there: tuple[str, int], *_: Any, **__: Any) -> socket.socket:
        self.connected.append(there)
        ours, other = socket.socketpair()
        self.test.addCleanup(other.close)
        other.sendall(self.answer)
        self.others.append(other)
        return ours

    def heard(self) -> bytes:
        """What the only receiver was sent."""
        [other] = self.others
        other.setblocking(False)
        return other.recv(65_536)


class Plain:
    """Stands for TLS, which has its own tests: the bytes go through as they are."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def wrap_socket(self, wire: socket.socket, server_hostname: str) -> socket.socket:
        self.names.append(server_hostname)
        return wire


class DeliveringTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.tls = Plain()
        self.patch(delivering.ssl, "create_default_context", lambda: self.tls)

    def deliver(self, url: str = "https://hooks.example/hook", **more: Any) -> None:
        channel = Channel(form=more.pop("form", "json"), url=Secret(url), **more)
        deliver(channel, DOWN, "host", "7")

    @proves("alerts: to the address that was checked, and no redirect is followed")
    def test_the_connection_goes_to_the_address_that_was_checked(self) -> None:
        network = Network(self, GOOD, PUBLIC, INSIDE)  # the name means our network by and by
        self.deliver()
        self.assertEqual(network.connected, [(PUBLIC, 443)])
        self.assertEqual(network.looked, ["hooks.example"])
        self.assertEqual(self.tls.names, ["hooks.example"])  # whose certificate is wanted
        self.assertIn(b"Host: hooks.example\r\n", network.heard())

    @proves("alerts: to the address that was checked, and no redirect is followed")
    def test_mail_goes_to_the_address_that_was_checked(self) -> None:
        network = Network(self, MAIL, PUBLIC, INSIDE)
        to = {"mail_from": "a@host.example", "mail_to": ("b@x.example",)}
        self.deliver("smtps://mail.example", form="mail", **to)
        self.assertEqual(network.connected, [(PUBLIC, 465)])
        self.assertEqual(network.looked.count("mail.example"), 1)
        self.assertEqual(self.tls.names, ["mail.example"])

    def test_a_name_that_means_an_address_inside_is_not_connected_to(self) -> None:
        network = Network(self, GOOD, INSIDE)
        with self.assertRaises(NotDelivered) as refused:
            self.deliver()
        self.assertFalse(refused.exception.again)
        self.assertEqual(network.connected, [])

    @proves("alerts: to the address that was checked, and no redirect is followed")
    def test_no_redirect_is_followed(self) -> None:
        for status in (301, 302, 303, 307, 308):
            head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: http://{INSIDE}/latest\r\n"
            network = Network(self, head.encode() + b"Content-Length: 0\r\n\r\n", ANOTHER)
            with self.assertRaises(NotDelivered) as refused:
                self.deliver()
            said = refused.exception
            self.assertEqual((str(said), said.again), (f"the receiver answered {status}", False))
            self.assertEqual((network.connected, len(network.looked)), ([(ANOTHER, 443)], 1))

    def test_an_endless_answer_is_read_no_further_than_needed(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n"
        network = Network(self, head + b"x" * 20_000, PUBLIC)
        self.deliver()
        self.assertTrue(network.heard())
