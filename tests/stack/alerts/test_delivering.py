"""Alerts go to the address that was checked, even if its name resolves differently later."""

from collections.abc import Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost, ConnectionRefusedError
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.alert_settings import Channel
from svcserver.kernel.secrets import Secret
from svcserver.stack.alerts import delivering
from svcserver.stack.alerts.delivering import DELIVERY_S, AlertClient, NotDelivered
from tests.stack.alerts.test_rules import DOWN
from tests.support.proves import proves

PUBLIC, ANOTHER, INSIDE = "198.41.0.4", "2606:4700::1111", "169.254.169.254"
GOOD = b"HTTP/1.1 204 No Content\r\n\r\n"
MAIL = (
    b"220 a\r\n",
    b"250 a\r\n",
    b"250 ok\r\n",
    b"250 ok\r\n",
    b"354 go\r\n",
    b"250 kept\r\n",
)


@define(eq=False)
class Receiver:
    """A network with one receiver, whose name resolves differently each time."""

    meanings: list[str]
    looked: list[str] = field(factory=list)
    reactor: Any = field(factory=MemoryReactorClock)
    transport: StringTransport = field(factory=StringTransport)
    protocol: Any = None

    async def look_up(self, name: str, port: int) -> Sequence[str]:
        self.looked.append(name)
        return [self.meanings.pop(0)]

    @property
    def connected(self) -> list[tuple[str, int]]:
        """Return the addresses to which connections were made."""
        return [(host, port) for host, port, *_ in self.reactor.tcpClients]

    def accept(self) -> None:
        """Accept the pending connection."""
        factory = self.reactor.tcpClients[-1][2]
        self.protocol = factory.buildProtocol(None)
        self.protocol.makeConnection(self.transport)
        self.reactor.pump([0.0] * 3)  # the body is written in steps

    def answers(self, *pieces: bytes) -> None:
        """Accept the connection and send these bytes."""
        self.accept()
        for piece in pieces:
            self.protocol.dataReceived(piece)
            while self.transport.producer is not None and not self.transport.streaming:
                self.transport.producer.resumeProducing()


class DeliveringTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.tls: list[str] = []  # names whose certificates are wanted
        self.patch(delivering, "optionsForClientTLS", lambda name: self.tls.append(name))
        self.patch(delivering, "wrapClientTLS", lambda options, endpoint: endpoint)

    def deliver(self, receiver: Receiver, url: str, **more: Any) -> Deferred[None]:
        channel = Channel(form=more.pop("form", "json"), url=Secret(url), **more)
        return AlertClient(receiver.reactor, "host", receiver.look_up).deliver(channel, DOWN, "7")

    def post(self, receiver: Receiver) -> Deferred[None]:
        return self.deliver(receiver, "https://hooks.example/hook")

    def refusal(self, delivery: Deferred[None]) -> NotDelivered:
        refusal = self.failureResultOf(delivery, NotDelivered).value
        assert isinstance(refusal, NotDelivered)
        return refusal

    @proves("alerts: to the address that was checked, and no redirect is followed")
    def test_the_connection_goes_to_the_address_that_was_checked(self) -> None:
        receiver = Receiver([PUBLIC, INSIDE])
        delivery = self.post(receiver)
        receiver.answers(GOOD)
        self.successResultOf(delivery)
        self.assertEqual(receiver.connected, [(PUBLIC, 443)])
        self.assertEqual((receiver.looked, self.tls), (["hooks.example"], ["hooks.example"]))
        self.assertIn(b"Host: hooks.example\r\n", receiver.transport.value())

    def test_non_ascii_host_name_is_sent_encoded(self) -> None:
        receiver = Receiver([PUBLIC])
        delivery = self.deliver(receiver, "https://user:word@b\u00fccher.example/%C3%A4?b=%20#c")
        receiver.answers(GOOD)
        self.successResultOf(delivery)
        sent = receiver.transport.value()
        self.assertTrue(sent.startswith(b"POST /%C3%A4?b=%20 HTTP/1.1\r\n"), sent)
        self.assertIn(b"Host: xn--bcher-kva.example\r\n", sent)
        self.assertNotIn(b"word@", sent)

    @proves("alerts: to the address that was checked, and no redirect is followed")
    def test_mail_goes_to_the_address_that_was_checked(self) -> None:
        receiver = Receiver([PUBLIC, INSIDE])
        to = {"mail_from": "a@host.example", "mail_to": ("b@x.example",)}
        delivery = self.deliver(receiver, "smtps://mail.example", form="mail", **to)
        receiver.answers(*MAIL)
        self.successResultOf(delivery)
        self.assertEqual(receiver.connected, [(PUBLIC, 465)])
        self.assertEqual(receiver.looked, ["mail.example"])
        self.assertIn(b"Subject: host: ", receiver.transport.value())

    def test_mail_without_tls_is_refused_on_the_internet(self) -> None:
        receiver = Receiver([PUBLIC])
        to = {"mail_from": "a@host.example", "mail_to": ("b@x.example",)}
        delivery = self.deliver(receiver, "smtp://mail.example", form="mail", **to)
        receiver.answers(*MAIL[:2])
        self.assertFalse(self.refusal(delivery).again)
        self.assertNotIn(b"MAIL FROM", receiver.transport.value())

    def test_private_address_is_not_connected_to(self) -> None:
        receiver = Receiver([INSIDE])
        self.assertFalse(self.refusal(self.post(receiver)).again)
        self.assertEqual(receiver.connected, [])

    @proves("alerts: to the address that was checked, and no redirect is followed")
    def test_no_redirect_is_followed(self) -> None:
        for status in (301, 302, 303, 307, 308):
            receiver = Receiver([ANOTHER])
            delivery = self.post(receiver)
            head = f"HTTP/1.1 {status} Elsewhere\r\nLocation: http://{INSIDE}/latest\r\n"
            receiver.answers(head.encode() + b"Content-Length: 0\r\n\r\n")
            refusal = self.refusal(delivery)
            self.assertEqual(str(refusal), f"the receiver answered {status}")
            self.assertFalse(refusal.again)
            self.assertEqual((receiver.connected, len(receiver.looked)), ([(ANOTHER, 443)], 1))

    def test_endless_reply_is_not_read_to_its_end(self) -> None:
        receiver = Receiver([PUBLIC])
        delivery = self.post(receiver)
        receiver.answers(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n" + b"x" * 20_000)
        self.successResultOf(delivery)
        self.assertTrue(receiver.transport.disconnecting)

    @proves("alerts: a receiver that hangs holds nobody up")
    def test_silent_receiver_is_abandoned_after_the_deadline(self) -> None:
        for form, url in (("json", "https://hooks.example/hook"), ("mail", "smtps://mail.example")):
            receiver = Receiver([PUBLIC])
            to = {"mail_from": "a@host.example", "mail_to": ("b@x.example",)}
            delivery = self.deliver(receiver, url, form=form, **(to if form == "mail" else {}))
            receiver.accept()
            self.assertNoResult(delivery)
            receiver.reactor.advance(DELIVERY_S)
            refusal = self.refusal(delivery)
            self.assertEqual((str(refusal), refusal.again), ("the receiver does not answer", True))
            self.assertTrue(receiver.transport.disconnected or receiver.transport.disconnecting)

    def test_network_faults_can_be_tried_again(self) -> None:
        receiver = Receiver([PUBLIC])
        delivery = self.post(receiver)
        factory = receiver.reactor.tcpClients[-1][2]
        factory.clientConnectionFailed(None, Failure(ConnectionRefusedError()))
        self.assertTrue(self.refusal(delivery).again)
        receiver = Receiver([PUBLIC])
        delivery = self.post(receiver)
        receiver.accept()
        receiver.protocol.connectionLost(Failure(ConnectionLost()))
        self.assertTrue(self.refusal(delivery).again)
