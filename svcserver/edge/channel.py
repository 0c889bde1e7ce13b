"""A client's connection at the edge: each request is judged, then passed on or refused.

Whose turn it is, and every wait, is ``http/connection.py``'s; here is what a request is.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from attrs import frozen
from twisted.internet import protocol
from twisted.internet.interfaces import IHandshakeListener
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.edge.exchange import Exchange
from svcserver.edge.verdicts import ProxyPolicy, Record, Refuse
from svcserver.edge.wording import refusal
from svcserver.http.bodies import Counted
from svcserver.http.connection import LINGER_S, Connection
from svcserver.http.heads import Fault, read_request
from svcserver.http.prompt import send

MAX_DISCARD = 64 * 1024  # a refused body up to this size does not cost the connection


@frozen
class Idle:
    """Since when (reactor seconds) a connection has waited for its client, and for what."""

    since: float
    in_request: bool  # a client in the middle of one: it sends its body, or reads its answer

    @property
    def waits_for(self) -> str:
        """The label of the counters: ``slow`` within a request, else ``idle``."""
        return "slow" if self.in_request else "idle"


@implementer(IHandshakeListener)
class Channel(Connection):
    """The server's end of one client connection."""

    def __init__(self, factory: Any, peer: str) -> None:
        super().__init__(factory, peer)
        self.exchange: Exchange | None = None
        self.policy: ProxyPolicy = factory.policy
        self.secure = factory.secure
        self.seconds: Callable[[], float] = factory.clock.seconds
        self._discard: Counted | None = None  # the body of a refused request
        self._began = 0.0  # the present request

    def is_stopping(self) -> bool:
        """Whether the service is stopping."""
        return bool(self.factory.stopping)

    @property
    def read_s(self) -> float:
        """How long the client may take to read the last answer."""
        return self.policy.limits.idle_s

    # -- beginnings ------------------------------------------------------------

    def connectionMade(self) -> None:
        """Start the deadline of the handshake, or without TLS of the first head."""
        super().connectionMade()
        if self.secure:
            self.within(self.policy.limits.handshake_s, self.cut)
        else:
            self.handshakeCompleted()

    def handshakeCompleted(self) -> None:
        """Start the deadline of the first head."""
        self.within(self.policy.limits.headers_s, self._too_slow)
        self._began = self.since

    def awake(self) -> None:
        """Start the deadline of a head of which the first bytes have come."""
        self._began = self.since
        self.until(self.since + self.policy.limits.headers_s, self._too_slow)

    def dataReceived(self, data: bytes) -> None:
        """Pass the bytes of a tunnel on unparsed; parse all others."""
        if self.exchange is not None and self.exchange.tunnelling and not self.closing:
            self.exchange.client_tunnel(data)
        else:
            Connection.dataReceived(self, data)  # each request comes here, and ``super`` costs more

    def is_busy(self) -> bool:
        """Whether a request is being passed on, or a refused request's body discarded."""
        return self.exchange is not None or self._discard is not None

    def owes(self) -> bool:
        """Whether a half-closed client still gets an answer: one to a whole request."""
        exchange = self.exchange
        if exchange is None or exchange.tunnelling:
            return False
        return exchange.body.done or not exchange.ready  # else its body will never be whole

    def use(self) -> bool:
        """Pass on the bytes of a body or a tunnel; discard those of a refused request's body."""
        exchange = self.exchange
        if exchange is None:
            self._throw_away()
        elif exchange.tunnelling:
            data, self.waiting = self.waiting, b""
            exchange.client_tunnel(data)
        elif exchange.ready and not exchange.body.done:
            data, self.waiting = self.waiting, b""
            self.waiting = exchange.client_body(data)
        else:
            return False
        return True

    def _throw_away(self) -> None:
        if self._discard is not None:
            _, self.waiting = self._discard.feed(self.waiting)
            if self._discard.done:
                self._discard = None
                self._idle()

    def begin(self, raw: bytes) -> None:
        """Read a request's head, and do with it what the policy decides."""
        if self.resting:
            self._began = self.seconds()
        head = read_request(raw)
        record = Record(self.peer, self._began, head)
        verdict = self.policy.judge(head, self.peer)
        limit = self.policy.limits.max_body
        if isinstance(verdict, Refuse):
            self._refuse(verdict, record)
            return
        record.route = verdict.route
        if limit is not None and head.length is not None and head.length > limit:
            self._refuse(Refuse(413, "body_too_large", "body_too_large", close=True), record)
            return
        self.until(self._began + self.policy.limits.request_s, self._too_slow)
        self.exchange = Exchange(self, head, verdict, record)
        self.exchange.start()

    # -- what an exchange asks -------------------------------------------------

    def request_complete(self) -> None:
        """The whole request is here: the client has no deadline any more."""
        self.until(inf, self.cut)

    def over(self, exchange: Exchange, *, close: bool) -> None:
        """The answer is written: log it, then close, or read the next request."""
        self.exchange = None
        self._report(exchange.record)
        if close or self.is_stopping():
            self.end(linger=not exchange.body.done)
            return
        self._idle()
        self.advance()

    def fail(
        self,
        exchange: Exchange,
        status: int,
        code: str,
        reason: str,
        retry_after_s: int | None = None,
    ) -> None:
        """Answer with a refusal of our own in place of the upstream's answer."""
        self.exchange = None
        exchange.abandon(aborted=False)
        refuse = Refuse(status, code, reason, retry_after_s, close=not exchange.body.done)
        self._refuse(refuse, exchange.record, body_seen=True)
        self.advance()

    # -- back-pressure of a client that reads too slowly -----------------------

    def pauseProducing(self) -> None:
        """Stop reading from the upstream, and begin no further answer."""
        super().pauseProducing()
        if self.exchange is not None:
            self.exchange.hold_upstream()

    def resumeProducing(self) -> None:
        """Read from the upstream again."""
        if self.exchange is not None:
            self.exchange.release_upstream()
        super().resumeProducing()

    # -- refusals --------------------------------------------------------------

    def faulty(self, fault: Fault) -> None:
        """End the connection on a malformed message, with an answer if none has begun."""
        exchange, self.exchange = self.exchange, None
        record = exchange.record if exchange else Record(self.peer, self._began)
        if exchange is not None:
            exchange.abandon(aborted=exchange.answered)
            if exchange.answered:
                self._report(record)
                self.cut()
                return
        self._refuse(self.policy.wrong(fault), record, body_seen=True)

    def _too_slow(self) -> None:
        self.faulty(Fault("slow", 408, "request_timeout"))

    def _refuse(self, refuse: Refuse, record: Record, *, body_seen: bool = False) -> None:
        head = record.head
        linger = refuse.close
        close = refuse.close or self.is_stopping()
        close = close or head is None or not head.keep_alive
        if head is not None and not body_seen and head.has_body and not close:
            if head.length is not None and head.length <= MAX_DISCARD and not head.expects:
                self._discard = Counted(head.length)
            else:
                close = linger = True
        record.status, record.reason = refuse.status, refuse.reason
        with_body = head is None or head.method != b"HEAD"
        send(self.transport, refusal(refuse, with_body=with_body, close=close))
        self._report(record)
        if close:
            self.end(linger=linger)
        elif self._discard is not None:
            self.until(self._began + self.policy.limits.request_s, self.cut)
        else:
            self._idle()

    def _report(self, record: Record) -> None:
        record.ended = self.seconds()
        self.policy.done(record)

    # -- ends ------------------------------------------------------------------

    def _idle(self) -> None:
        if self.is_stopping():
            self.end()
        else:
            self.rest(self.policy.limits.keep_alive_s)

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        exchange, self.exchange = self.exchange, None
        super().connectionLost(reason)
        if exchange is not None:
            exchange.client_gone()
            self._report(exchange.record)

    def idle(self) -> Idle | None:
        """Since when it waits for its client; None while the client waits for an answer."""
        exchange = self.exchange
        if exchange is None:
            return Idle(self.since, in_request=False)
        if exchange.tunnelling or (exchange.body.done and not self.unread):
            return None
        if exchange.expects is not None:  # it waits for a word of ours or of the upstream
            return None
        return Idle(self._began, in_request=True)

    def sweep(self, now: float) -> None:
        """Act on what is overdue; called once a second."""
        super().sweep(now)
        if self.exchange is not None:
            self.exchange.sweep(now)

    def stop(self) -> None:
        """End a tunnel or an idle connection; a running request may finish."""
        if self.closing or (self.exchange is not None and not self.exchange.tunnelling):
            return
        self.end()
        self.within(LINGER_S, self.cut)
