"""A client's connection at the edge: each request is checked, then forwarded or refused."""

from typing import Any

from attrs import frozen
from twisted.internet import protocol
from twisted.internet.interfaces import IHandshakeListener
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.edge.exchange import Client, Exchange
from svcserver.edge.verdicts import Record, Refuse
from svcserver.edge.wording import refusal
from svcserver.http.bodies import CountedBody
from svcserver.http.connection import LINGER_S, Connection
from svcserver.http.heads import Fault, read_request
from svcserver.http.prompt import send

MAX_DISCARD = 64 * 1024  # bytes; a larger refused body closes the connection


@frozen
class Idle:
    """The state of a connection on which the proxy waits for the client.

    ``since`` is the time of the reactor's clock at which the wait began.
    """

    since: float
    in_request: bool  # True while the client sends a body or reads an answer

    @property
    def waits_for(self) -> str:
        """The metrics label: ``slow`` during a request, ``idle`` between requests."""
        return "slow" if self.in_request else "idle"


@implementer(IHandshakeListener)
class EdgeChannel(Client):
    """The server side of one client connection."""

    def __init__(self, factory: Any, peer: str) -> None:
        super().__init__(factory, peer)
        self.exchange: Exchange | None = None
        self.policy = factory.policy
        self.limits = factory.policy.limits
        self.secure = factory.secure
        self._discard: CountedBody | None = None  # the body of a refused request

    # -- beginnings ------------------------------------------------------------

    def connectionMade(self) -> None:
        """Start the deadline for the TLS handshake or, without TLS, for the first request head."""
        super().connectionMade()
        if self.secure:
            self.within(self.limits.handshake_s, self.cut)
        else:
            self.handshakeCompleted()

    def handshakeCompleted(self) -> None:
        """Start the deadline for the first request head."""
        self.within(self.limits.headers_s, self.on_late_head)
        self.began = self.since

    def dataReceived(self, data: bytes) -> None:
        """Handle received bytes; a tunnel's bytes take a shorter path, to save CPU time."""
        if self.exchange is not None and self.exchange.tunnelling and not self.closing:
            self.exchange.client_received(data)
        else:
            Connection.dataReceived(self, data)  # called for each request: ``super`` costs more

    def start_request(self, raw: bytes) -> None:
        head = read_request(raw)
        record = Record(self.peer, self.began, head)
        verdict = self.policy.judge(head, self.peer)
        if isinstance(verdict, Refuse):
            self._refuse(verdict, record)
            return
        record.route = verdict.route
        limit = self.limits.max_body
        if limit is not None and head.length is not None and head.length > limit:
            self._refuse(Refuse(413, "body_too_large", "body_too_large", close=True), record)
            return
        self.until(self.began + self.limits.request_s, self.on_late_head)
        self.exchange = Exchange(self, head, verdict, record)
        self.exchange.start()

    def take_body(self) -> None:
        """Forward the bytes of a body or a tunnel; discard the body of a refused request."""
        data, self.waiting = self.waiting, b""
        if self.exchange is not None:
            self.waiting = self.exchange.client_received(data)
        elif self._discard is not None:
            _, self.waiting = self._discard.feed(data)
            if self._discard.done:
                self._discard = None
                if self.factory.stopping:
                    self.end()
                else:
                    self.next_request()

    # -- the exchange's answers ------------------------------------------------

    def finish(self, exchange: Exchange, *, close: bool) -> None:
        self.exchange = None
        self._report(exchange.record)
        if close or self.factory.stopping:
            self.end(linger=not exchange.body.done)
        else:
            self.next_request()

    def refuse(self, refuse: Refuse, record: Record) -> None:
        self.exchange = None
        self._refuse(refuse, record, body_seen=True)

    # -- back-pressure of a client that reads too slowly -----------------------

    def pauseProducing(self) -> None:
        """Pause the upstream and further answers, because the client reads too slowly."""
        super().pauseProducing()
        if self.exchange is not None:
            self.exchange.hold_upstream()

    def resumeProducing(self) -> None:
        """Resume reading from the upstream."""
        if self.exchange is not None:
            self.exchange.release_upstream()
        super().resumeProducing()

    # -- refusals --------------------------------------------------------------

    def on_fault(self, fault: Fault) -> None:
        exchange, self.exchange = self.exchange, None
        record = exchange.record if exchange else Record(self.peer, self.began)
        if exchange is not None:
            exchange.abandon(aborted=exchange.answered)
            if exchange.answered:
                self._report(record)
                self.cut()
                return
        self._refuse(self.policy.wrong(fault), record, body_seen=True)

    def on_late_head(self) -> None:
        self.on_fault(Fault("slow", 408, "request_timeout"))

    def _refuse(self, refuse: Refuse, record: Record, *, body_seen: bool = False) -> None:
        head = record.head
        linger = refuse.close
        close = refuse.close or self.factory.stopping
        close = close or head is None or not head.keep_alive
        if head is not None and not body_seen and head.has_body and not close:
            if head.length is not None and head.length <= MAX_DISCARD and not head.expects:
                self._discard = CountedBody(head.length)
            else:
                close = linger = True
        record.status, record.reason = refuse.status, refuse.reason
        with_body = head is None or head.method != b"HEAD"
        send(self.transport, refusal(refuse, with_body=with_body, close=close))
        self._report(record)
        if close:
            self.end(linger=linger)
        elif self._discard is not None:
            self.until(self.began + self.limits.request_s, self.cut)
            self.receive()
        else:
            self.next_request()

    def _report(self, record: Record) -> None:
        record.ended = self.factory.clock.seconds()
        self.policy.done(record)

    # -- ends ------------------------------------------------------------------

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        exchange, self.exchange = self.exchange, None
        super().connectionLost(reason)
        if exchange is not None:
            exchange.client_lost()
            self._report(exchange.record)

    def idle(self) -> Idle | None:
        """Return an ``Idle`` if the proxy waits for the client, or None if the client waits."""
        exchange = self.exchange
        if exchange is None:
            return Idle(self.since, in_request=False)
        if exchange.tunnelling or (exchange.body.done and not self.unread):
            return None
        if exchange.expects is not None:  # the client waits for 100 Continue
            return None
        return Idle(self.began, in_request=True)

    def sweep(self, now: float) -> None:
        super().sweep(now)
        if self.exchange is not None:
            self.exchange.sweep(now)

    def stop(self) -> None:
        """Close a tunnel or an idle connection; let a request in progress finish."""
        if self.closing or (self.exchange is not None and not self.exchange.tunnelling):
            return
        self.end()
        self.within(LINGER_S, self.cut)
