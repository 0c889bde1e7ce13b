"""Every byte arrives once and in order, wherever the network splits TLS records."""

import contextlib
import socket
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from OpenSSL import SSL
from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.tcp import Connection
from twisted.internet.testing import MemoryReactor, StringTransport
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.certificate import make_pair
from svcserver.edge.prompt import TLS_PARTS, connecting, is_one_record, is_usable, serving
from svcserver.edge.tls import TlsFactory, server_context
from svcserver.http import prompt

CONTEXT = server_context(make_pair(["localhost"]))


class Receiver(Protocol):
    """A protocol that stores received bytes and answers nothing."""

    def __init__(self) -> None:
        self.got = b""

    def dataReceived(self, data: bytes) -> None:
        self.got += data


class Session:
    """A client and the gateway's side of its connection, in memory."""

    def __init__(self, *, usable: bool = True) -> None:
        factory = TlsFactory(CONTEXT, Factory.forProtocol(Receiver), lambda _: True, Clock())
        factory.protocol = serving(usable)
        self.server: Any = factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 4444))
        self.wire = StringTransport()
        self.server.makeConnection(self.wire)
        self.first = self.wire.value()
        self.client = SSL.Connection(SSL.Context(SSL.TLS_METHOD), None)
        self.client.set_connect_state()
        for _ in range(3):
            self._step()

    def _step(self) -> None:
        with contextlib.suppress(SSL.WantReadError):
            self.client.do_handshake()
        if records := self.records():
            self.server.dataReceived(records)
        if self.wire.value():
            self.client.bio_write(self.wire.value())
            self.wire.clear()

    def records(self) -> bytes:
        """Return the TLS records that the client sends."""
        try:
            return self.client.bio_read(1 << 20)
        except SSL.WantReadError:
            return b""


class Transport(Connection):
    """A TCP transport without the attribute ``missing``, which counts the calls of ``write``."""

    missing = ""
    writes = 0

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "missing"):
            raise AttributeError(name)
        return super().__getattribute__(name)

    def write(self, data: bytes) -> None:
        self.writes += 1
        self.socket.sendall(data)


class SendTests(SynchronousTestCase):
    def test_a_transport_without_a_private_attribute_sends_the_same_bytes(self) -> None:
        for missing in ("", "_tempDataBuffer", "_writeDisconnecting"):
            near, far = socket.socketpair()
            self.addCleanup(near.close)
            self.addCleanup(far.close)
            transport = Transport(near, Receiver(), MemoryReactor())
            transport.connected, transport.missing = True, missing
            self.assertEqual(prompt.is_usable(transport), not missing)
            prompt.send(transport, b"hello")
            self.assertEqual((far.recv(9), transport.writes), (b"hello", bool(missing)))


class PrivatePartTests(SynchronousTestCase):
    def test_a_missing_private_part_chooses_the_protocol_of_twisted(self) -> None:
        self.assertTrue(is_usable())
        self.assertFalse(is_usable(lib=object()))
        for missing in TLS_PARTS:
            parts = dict.fromkeys(TLS_PARTS) | {"_tlsConnection": SSL.Connection(CONTEXT, None)}
            self.assertTrue(is_usable(tls=SimpleNamespace(**parts)))
            del parts[missing]
            self.assertFalse(is_usable(tls=SimpleNamespace(**parts)), missing)
        no_ends = SimpleNamespace(**dict.fromkeys(TLS_PARTS))
        self.assertFalse(is_usable(tls=no_ends))
        self.assertIs(serving(usable=False), TLSMemoryBIOProtocol)
        self.assertIs(connecting(usable=False), TLSMemoryBIOProtocol)


class EitherTests(SynchronousTestCase):
    """Tests that run with our protocol, and in ``FallbackTests`` with Twisted's protocol."""

    usable = True

    def session(self) -> Session:
        return Session(usable=self.usable)

    def test_a_forged_record_and_a_goodbye_end_the_connection(self) -> None:
        forged, leaving = self.session(), Session()
        forged.server.dataReceived(b"\x17\x03\x03\x00\x20" + b"x" * 32)
        self.assertEqual(forged.server.wrappedProtocol.got, b"")
        leaving.client.shutdown()
        leaving.server.dataReceived(leaving.records())
        self.assertTrue(forged.wire.disconnecting and leaving.wire.disconnecting)

    def test_a_write_to_a_lost_connection_is_dropped(self) -> None:
        for size in (1, 100_000):
            session = self.session()
            session.server.connectionLost(Failure(ConnectionDone()))
            session.wire.clear()  # OpenSSL has sent its closing alert
            session.server.write(b"x" * size)
            self.assertEqual(session.wire.value(), b"")
            # OpenSSL's memory has been released as well
            self.assertNotIn("_tls_ends", vars(session.server))

    def test_long_data_is_sent_completely(self) -> None:
        session = self.session()
        session.server.write(b"")
        self.assertEqual(session.wire.value(), b"")
        for size in (2**14, 2**14 + 1, 100_000):
            session.server.write(b"x" * size)
            session.client.bio_write(session.wire.value())
            session.wire.clear()
            got = b""
            with contextlib.suppress(SSL.WantReadError):
                while True:
                    got += session.client.recv(1 << 20)
            self.assertEqual(len(got), size)


class FallbackTests(EitherTests):
    """The same tests with Twisted's own protocol."""

    usable = False


class PromptTests(SynchronousTestCase):
    def test_one_tls_record_is_decrypted_on_the_fast_path(self) -> None:
        session = Session()
        session.client.send(b"hello")
        self.assertTrue(is_one_record(record := session.records()))
        self.patch(session.server, "_flushReceiveBIO", lambda: self.fail("the long way"))
        session.server.dataReceived(record)
        self.assertEqual(session.server.wrappedProtocol.got, b"hello")

    def test_fragments_and_other_messages_are_no_record_of_data(self) -> None:
        whole = b"\x17\x03\x03\x00\x02ab"
        self.assertTrue(is_one_record(whole))
        for raw in (b"", whole[:5], whole[:-1], whole + b"c", b"\x16" + whole[1:], whole * 2):
            self.assertFalse(is_one_record(raw))

    @settings(max_examples=50, deadline=None)
    @given(
        st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=8),
        st.data(),
        st.booleans(),
    )
    def test_records_cut_at_any_byte_give_the_same_data(
        self, reply: list[bytes], data: st.DataObject, usable: bool
    ) -> None:
        session = Session(usable=usable)
        self.assertEqual(session.first, b"")
        sent: list[bytes] = []
        for text in reply:
            session.client.send(text)
            sent.append(session.records())
        raw = b"".join(sent)
        cuts = data.draw(st.sets(st.integers(1, len(raw) - 1)))
        edges = [0, *sorted(cuts), len(raw)]
        for begin, end in pairwise(edges):
            session.server.dataReceived(raw[begin:end])
        self.assertEqual(session.server.wrappedProtocol.got, b"".join(reply))
