"""A client's connection: one request after another, each answered in its turn.

Every wait has an end, looked at once a second for all connections together.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from twisted.internet import protocol
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener, IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.edge.exchange import Exchange
from svcserver.edge.verdicts import Keeper, Record, Refuse
from svcserver.edge.wording import CONTINUE, refusal
from svcserver.http.bodies import Counted
from svcserver.http.heads import Fault, RequestHead, find_end, read_request
from svcserver.http.prompt import send

log = Logger()

SWEEP_S = 1.0
LINGER_S = 3.0  # how long a refused client may go on sending before it is cut
MAX_BACKLOG = 64 * 1024  # bytes of later requests that may wait
MAX_DISCARD = 64 * 1024  # a refused body up to this size does not cost the connection
MAX_LINGER = 1024 * 1024  # bytes


@implementer(IHalfCloseableProtocol, IHandshakeListener)
class Channel(protocol.Protocol):
    """The server's end of one client connection."""

    exchange: Exchange | None = None
    transport: Any

    def __init__(self, factory: ChannelFactory, peer: str) -> None:
        self.factory: Any = factory
        self.keeper: Keeper = factory.keeper
        self.peer = peer
        self._waiting = b""
        self._discard: Counted | None = None
        self._holds: set[str] = set()
        self._advancing = self._closing = self._half_closed = False
        self._began = 0.0
        self._thrown = 0
        self._deadline, self._due = inf, self.cut

    @property
    def stopping(self) -> bool:
        """Whether the service is on its way out."""
        return bool(self.factory.stopping)

    def now(self) -> float:
        """The clock."""
        return float(self.factory.clock.seconds())

    # -- beginnings ------------------------------------------------------------

    def connectionMade(self) -> None:
        """Wait for the handshake, or for the first request."""
        self.transport.setTcpNoDelay(True)
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

    def advance(self) -> None:
        """Go on with the bytes that wait, as far as they can be used now."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._waiting and not self._closing and self._step():
                pass
        except Fault as fault:
            self._faulty(fault)
        finally:
            self._advancing = False

    def _step(self) -> bool:
        if self.exchange is not None:
            return self._feed(self.exchange)
        if self._discard is not None:
            _, self._waiting = self._discard.feed(self._waiting)
            if self._discard.done:
                self._discard = None
                self._idle()
            return True
        return self._head()

    def _feed(self, exchange: Exchange) -> bool:
        if exchange.tunnelling:
            data, self._waiting = self._waiting, b""
            exchange.client_tunnel(data)
        elif exchange.ready and not exchange.body.done:
            data, self._waiting = self._waiting, b""
            self._waiting = exchange.client_body(data)
        else:
            if len(self._waiting) > MAX_BACKLOG:
                self.hold("backlog")
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
        self._go_on()

    def fail(self, exchange: Exchange, status: int, code: str, reason: str) -> None:
        """Give our own answer in place of the upstream's."""
        self.exchange = None
        exchange.abandon(aborted=False)
        refuse = Refuse(status, code, reason, close=not exchange.body.done)
        self._refuse(refuse, exchange.record, body_seen=True)
        self._go_on()

    def _go_on(self) -> None:
        """The next request, if it is here; after a half-close nothing else will come."""
        self.release("backlog")
        self.advance()
        if self._half_closed and self.exchange is None and not self._advancing:
            self._end(linger=False)

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
        self._deadline, self._due = self.now() + seconds, due

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
        if linger and not self.factory.secure:
            self.transport.loseWriteConnection()  # TLS hears a peer out by itself
        else:
            self.transport.loseConnection()

    def cut(self) -> None:
        """End it now."""
        self._closing, self._deadline = True, inf
        self.transport.abortConnection()

    def readConnectionLost(self) -> None:
        """The client has sent everything; it still wants its answer."""
        exchange = self.exchange
        self._half_closed = True
        if exchange is None or exchange.tunnelling or not exchange.body.done:
            self.transport.loseConnection()

    def writeConnectionLost(self) -> None:
        """Our own doing."""

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        """Let go of everything."""
        self._closing, self._deadline = True, inf
        exchange, self.exchange = self.exchange, None
        self.factory.gone(self)
        if exchange is not None:
            exchange.client_gone()
            self._report(exchange.record)

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


class ChannelFactory(protocol.Factory):
    """Serves ``keeper`` on every connection; ``secure`` when TLS is underneath."""

    noisy = False

    def __init__(self, clock: IReactorTime, keeper: Keeper, *, secure: bool) -> None:
        self.clock, self.keeper, self.secure = clock, keeper, secure
        self.channels: set[Channel] = set()
        self.stopping = False
        self.left: Callable[[str], None] | None = None  # told of every peer that goes
        self.sweeps: list[Callable[[float], None]] = []  # others who want the round, as pools
        self._round = LoopingCall(self._sweep)
        self._round.clock = clock
        self._empty: Deferred[None] | None = None

    def startFactory(self) -> None:
        """Begin the rounds."""
        self._round.start(SWEEP_S, now=False)

    def stopFactory(self) -> None:
        """Nothing listens any more; rounds go on while connections are open."""
        self.stopping = True
        if not self.channels:
            self._rest()

    def buildProtocol(self, addr: Any) -> Channel | None:
        """A channel for a client."""
        return Channel(self, peer_of(addr))

    def opened(self, channel: Channel) -> None:
        """A connection is up."""
        self.channels.add(channel)

    def gone(self, channel: Channel) -> None:
        """A connection is down."""
        self.channels.discard(channel)
        if self.left is not None:
            self.left(channel.peer)
        if not self.channels and self.stopping:
            self._rest()

    def stop(self, grace_s: float) -> Deferred[None]:
        """Fires when every connection is gone; what is left after ``grace_s`` is cut."""
        self.stopping = True
        for channel in list(self.channels):
            channel.stop()
        if not self.channels:
            self._rest()
            return succeed(None)
        self._empty = Deferred()
        timer = self.clock.callLater(grace_s, self.cut)  # type: ignore[attr-defined,unused-ignore]
        self._empty.addBoth(lambda result: timer.cancel() if timer.active() else result)
        return self._empty

    def cut(self) -> None:
        """End every connection now."""
        for channel in list(self.channels):
            channel.cut()

    def _rest(self) -> None:
        if self._round.running:
            self._round.stop()
        empty, self._empty = self._empty, None
        if empty is not None:
            empty.callback(None)

    def _sweep(self) -> None:
        now = self.clock.seconds()
        for each in [*(channel.sweep for channel in self.channels), *self.sweeps]:
            try:
                each(now)
            except Exception:
                log.failure("a round over the connections failed")


def peer_of(addr: Any) -> str:
    """The client's address as text; an IPv4 address stays one on an IPv6 socket."""
    host = str(getattr(addr, "host", "") or "127.0.0.1")
    return host[7:] if host.lower().startswith("::ffff:") and "." in host else host
