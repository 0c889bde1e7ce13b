"""The relay's side of TLS: the server name that it sends, and the certificate check."""

import contextlib
from typing import Any

from OpenSSL import SSL
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.certificate import Pair, make_pair
from svcserver.edge.tls import Mismatch, server_context
from svcserver.relay.relaying import RelayService, Target
from tests.edge.wires import Wire
from tests.support.proves import proves

PAIR = make_pair(["play.example"])


class Later(Wire):
    """A transport that reports the end of the connection later, as a real transport does."""

    def _end(self, how: str, reason: Exception) -> None:
        self.ended = self.ended or how


class PinningTests(SynchronousTestCase):
    def reach(
        self, host: str, pair: Pair = PAIR, upcoming: str = ""
    ) -> tuple[Any, SSL.Connection, Wire]:
        """Connect a relay to a server that has the certificate of ``pair``.

        Return the result of the relay's connection pool, the server's side of TLS, and the
        transport between the two.
        """
        reactor = MemoryReactorClock()
        taken = RelayService(reactor, Target(host, 443, PAIR.fingerprint, upcoming)).pool.take()
        protocol = reactor.tcpClients[-1][2].buildProtocol(None)
        wire = Later(protocol)
        protocol.makeConnection(wire)
        server = SSL.Connection(server_context(pair), None)
        server.set_accept_state()
        for _ in range(4):
            self.step(server, wire)
        self.addCleanup(protocol.connectionLost, Failure(ConnectionDone()))
        return taken, server, wire

    def step(self, server: SSL.Connection, wire: Wire) -> None:
        """Pass on all bytes that either side wants to send."""
        if reply := wire.take():
            server.bio_write(reply)
        with contextlib.suppress(SSL.Error):
            server.do_handshake()
        with contextlib.suppress(SSL.WantReadError):
            while not wire.ended:
                wire.protocol.dataReceived(server.bio_read(1 << 16))

    @proves("relay: 502 certificate_mismatch")
    def test_the_server_name_is_sent_for_names_and_not_for_addresses(self) -> None:
        for host, named in (("play.example", b"play.example"), ("203.0.113.10", None)):
            taken, server, _ = self.reach(host)
            self.assertTrue(self.successResultOf(taken).alive)
            self.assertEqual(server.get_servername(), named)

    def test_the_pin_replaces_name_and_chain(self) -> None:
        taken, _, _ = self.reach("other.example")
        self.assertTrue(self.successResultOf(taken).alive)

    def test_during_a_renewal_both_certificates_are_accepted(self) -> None:
        renewed = make_pair(["play.example"])
        for pair in (PAIR, renewed):
            taken, _, _ = self.reach("play.example", pair, renewed.fingerprint)
            self.assertTrue(self.successResultOf(taken).alive)
        impostor = make_pair(["play.example"])
        taken, _, _ = self.reach("play.example", impostor, renewed.fingerprint)
        self.failureResultOf(taken, Mismatch)

    @proves("relay: 502 certificate_mismatch")
    def test_a_server_with_another_certificate_receives_no_bytes(self) -> None:
        impostor = make_pair(["play.example"])
        taken, server, wire = self.reach("play.example", pair=impostor)
        self.assertEqual(
            self.failureResultOf(taken, Mismatch).value.presented, impostor.fingerprint
        )
        self.assertTrue(wire.ended)
        with self.assertRaises(SSL.Error):
            server.recv(1)
