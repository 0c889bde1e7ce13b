"""A client's connection: one request after another, each answered in its turn.

Every wait has an end, looked at once a second for all connections together.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from attrs import frozen
from twisted.internet import protocol
from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener, IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.edge.exchange import Exchange
from svcserver.edge.verdicts import Keeper, Record, Refuse
from svcserver.edge.wording import CONTINUE, refusal
from svcserver.http.bodies import Counted
from svcserver.http.heads import Fault, RequestHead, find_end, read_request
from svcserver.http.prompt import send

LINGER_S = 3.0  # how long a refused client may go on sending before it is cut
MAX_BACKLOG = 64 * 1024  # bytes of later requests that may wait
MAX_DISCARD = 64 * 1024  # a refused body up to this size does not cost the connection
MAX_LINGER = 1024 * 1024  # bytes
IN_A_ROW = 16  # requests that pass or are refused at once, then other connections have their turn


@frozen
class Idle:
    """A connection that waits for its client: since when, and for what."""

    since: float
    in_request: bool  # a client in the middle of one: it sends its body, or reads its answer

    @property
    def waits_for(self) -> str:
        """For the counters."""
        return "slow" if self.in_request else "idle"


@implementer(IHalfCloseableProtocol, IHandshakeListener, IPushProducer)
class Channel(protocol.Protocol):
    """The server's end of one client connection."""

    exchange: Exchange | None = None
    transport: Any

    def __init__(self, factory: Any, peer: str) -> None:
        self.factory = factory
        self.keeper: Keeper = factory.keeper
        self.peer = peer
        self._waiting = b""
        self._discard: Counted | None = None
        self._holds: set[str] = set()
        self._advancing = self._closing = self._half_closed = False
        self._unread = False  # the client has not read what was written
        self._later = False  # requests wait, for that or for their turn
        self._left = 0  # requests until others have their turn
        self._turn: Any = None  # the call that gives it back
        self._began = 0.0
        self._since = 0.0  # when the present wait for the client began
        self._thrown = 0
        self._deadline, self._due = inf, self.cut

    @property
    def stopping(self) -> bool:
        """Whether the service is on its way out."""
        return bool(self.factory.stopping)

    def now(self) -> float:
        return float(self.factory.clock.seconds())

    # -- beginnings ------------------------------------------------------------

    def connectionMade(self) -> None:
        """Wait for the handshake, or for the first request."""
        self.transport.setTcpNoDelay(True)
        self.transport.registerProducer(self, True)
        self.factory.opened(self)
        if self.factory.secure:
            self._within(self.keeper.limits.handshake_s, self.cut)
        else:
            self.handshakeCompleted()

    def handshakeCompleted(self) -> None:
        """The first head is due."""
        self._began = self.now()
        self._within(self.keeper.limits.headers_s, self._too_slow)

    def dataReceived(self, data: bytes) -> None:
        """Bytes of a request, of a tunnel, or of nobody's interest any more."""
        if self._closing:
            self._thrown += len(data)
            if self._thrown > MAX_LINGER:
                self.cut()
            return
        if self.exchange is not None and self.exchange.tunnelling:
            self.exchange.client_tunnel(data)
            return
        self._waiting = self._waiting + data if self._waiting else data
        self.advance()
        if len(self._waiting) > MAX_BACKLOG:
            self.hold("backlog")

    def advance(self) -> None:
        """Go on with the bytes that wait, as far as they can be used now."""
        if self._advancing or self._turn is not None:
            return
        self._advancing, self._later, self._left = True, False, IN_A_ROW
        try:
            while self._waiting and not self._closing and self._step():
                pass
        except Fault as fault:
            self._faulty(fault)
        finally:
            self._advancing = False
        if self._holds and len(self._waiting) <= MAX_BACKLOG:
            self.release("backlog")
        if self._half_closed and not self._later and not self._owes():
            self._end(linger=False)

    def _owes(self) -> bool:
        """Whether a client that says nothing more has asked for something."""
        exchange = self.exchange
        if exchange is None or exchange.tunnelling:
            return False
        return exchange.body.done or not exchange.ready  # else its body will never be whole

    def _step(self) -> bool:
        if self.exchange is not None:
            return self._feed(self.exchange)
        if self._discard is not None:
            _, self._waiting = self._discard.feed(self._waiting)
            if self._discard.done:
                self._discard = None
                self._idle()
            return True
        if self._unread or self._left == 0:
            self._later = True
            if not self._unread:
                self._turn = self.factory.clock.callLater(0, self._take_turn)
            return False
        self._left -= 1
        return self._head()

    def _take_turn(self) -> None:
        self._turn = None
        self.advance()

    def _feed(self, exchange: Exchange) -> bool:
        if exchange.tunnelling:
            data, self._waiting = self._waiting, b""
            exchange.client_tunnel(data)
        elif exchange.ready and not exchange.body.done:
            data, self._waiting = self._waiting, b""
            self._waiting = exchange.client_body(data)
        else:
            return False
        return True

    def _head(self) -> bool:
        if self._due == self._hang_up:  # an idle connection wakes up
            self._began = self.now()
            self._within(self.keeper.limits.headers_s, self._too_slow)
        end = find_end(self._waiting)
        if end < 0:
            return False
        raw, self._waiting = self._waiting[:end], self._waiting[end:]
        self._judge(read_request(raw))
        return True

    def _judge(self, head: RequestHead) -> None:
        record = Record(self.peer, self._began, head)
        verdict = self.keeper.judge(head, self.peer)
        limit = self.keeper.limits.max_body
        if isinstance(verdict, Refuse):
            self._refuse(verdict, record)
            return
        record.route = verdict.route
        if limit is not None and head.length is not None and head.length > limit:
            self._refuse(Refuse(413, "body_too_large", "body_too_large", close=True), record)
            return
        if head.expects and head.has_body:
            send(self.transport, CONTINUE)
        request_s = self.keeper.limits.request_s
        self._deadline, self._due = self._began + request_s, self._too_slow
        self.exchange = Exchange(self, head, verdict, record)
        self.exchange.start()

    # -- what an exchange asks -------------------------------------------------

    def request_complete(self) -> None:
        """The client has done its part."""
        self._deadline = inf

    def over(self, exchange: Exchange, *, close: bool) -> None:
        """The answer has left; the next request may come."""
        self.exchange = None
        self._report(exchange.record)
        if close or self.stopping:
            self._end(linger=not exchange.body.done)
            return
        self._idle()
        self.advance()

    def fail(self, exchange: Exchange, status: int, code: str, reason: str) -> None:
        """Give our own answer in place of the upstream's."""
        self.exchange = None
        exchange.abandon(aborted=False)
        refuse = Refuse(status, code, reason, close=not exchange.body.done)
        self._refuse(refuse, exchange.record, body_seen=True)
        self.advance()

    def hold(self, reason: str) -> None:
        """Read no more until every reason is gone."""
        if not self._holds:
            self.transport.pauseProducing()
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        """One reason less."""
        if reason in self._holds:
            self._holds.discard(reason)
            if not self._holds and self.connected and not self._closing:
                self.transport.resumeProducing()

    # -- back-pressure of a client that reads too slowly -----------------------

    def pauseProducing(self) -> None:
        """No more of this answer, and no other one before it has been read."""
        self._unread = True
        if self.exchange is not None:
            self.exchange.hold_upstream()

    def resumeProducing(self) -> None:
        """It has read what waited."""
        self._unread = False
        if self.exchange is not None:
            self.exchange.release_upstream()
        self.advance()

    def stopProducing(self) -> None:
        """The connection is gone; ``connectionLost`` says so."""

    # -- refusals --------------------------------------------------------------

    def _faulty(self, fault: Fault) -> None:
        """What cannot be read ends the connection, with an answer if none has begun."""
        exchange, self.exchange = self.exchange, None
        record = exchange.record if exchange else Record(self.peer, self._began)
        if exchange is not None:
            exchange.abandon(aborted=exchange.answered)
            if exchange.answered:
                self._report(record)
                self.cut()
                return
        self._refuse(self.keeper.wrong(fault), record, body_seen=True)

    def _too_slow(self) -> None:
        self._faulty(Fault("slow", 408, "request_timeout"))

    def _refuse(self, refuse: Refuse, record: Record, *, body_seen: bool = False) -> None:
        head = record.head
        linger = refuse.close
        close = refuse.close or self.stopping
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
            self._end(linger=linger)
        elif self._discard is not None:
            self._deadline, self._due = self._began + self.keeper.limits.request_s, self.cut
        else:
            self._idle()

    def _report(self, record: Record) -> None:
        record.ended = self.now()
        self.keeper.done(record)

    # -- ends ------------------------------------------------------------------

    def _idle(self) -> None:
        if self.stopping:
            self._end(linger=False)
            return
        self._within(self.keeper.limits.keep_alive_s, self._hang_up)

    def _within(self, seconds: float, due: Callable[[], None]) -> None:
        self._since = self.now()
        self._deadline, self._due = self._since + seconds, due

    def _hang_up(self) -> None:
        self._end(linger=False)

    def _end(self, *, linger: bool) -> None:
        """Close after what is written; a client that is still sending is heard out."""
        if self._closing:
            return
        self._closing, self._waiting = True, b""
        self._within(LINGER_S if linger else self.keeper.limits.idle_s, self.cut)
        if self._holds:
            self._holds.clear()
            self.transport.resumeProducing()
        self.transport.unregisterProducer()
        if linger and not self.factory.secure:
            self.transport.loseWriteConnection()  # TLS hears a peer out by itself
        else:
            self.transport.loseConnection()

    def cut(self) -> None:
        """End it now."""
        self._closing, self._deadline = True, inf
        self.transport.abortConnection()

    def readConnectionLost(self) -> None:
        """The client has sent everything; it still wants its answers."""
        self._half_closed = True
        if self._closing:
            self.transport.loseConnection()
        else:
            self.advance()

    def writeConnectionLost(self) -> None:
        """Our own doing."""

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        """Let go of everything."""
        self._closing, self._deadline = True, inf
        exchange, self.exchange = self.exchange, None
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self.factory.gone(self, reason)
        if exchange is not None:
            exchange.client_gone()
            self._report(exchange.record)

    def idle(self) -> Idle | None:
        """How long it has waited for its client; None where the client waits for us."""
        exchange = self.exchange
        if exchange is None:
            return Idle(self._since, in_request=False)
        if exchange.tunnelling or (exchange.body.done and not self._unread):
            return None
        return Idle(self._began, in_request=True)

    def sweep(self, now: float) -> None:
        """Once a second: is anything due?"""
        if now >= self._deadline:
            self._deadline = inf
            self._due()
        elif self.exchange is not None:
            self.exchange.sweep(now)

    def stop(self) -> None:
        """The service stops: tunnels and idle connections end, answers may finish."""
        if self._closing or (self.exchange is not None and not self.exchange.tunnelling):
            return
        self._end(linger=False)
        self._within(LINGER_S, self.cut)
