"""The server's end of an HTTP/1.1 connection: pipelining, back-pressure, deadlines.

What every listener of ours needs is here. Requests are handled one after another, ``IN_A_ROW`` of
them before other connections have their turn. Bytes of later requests are kept, up to
``MAX_BACKLOG``. A client that does not read gets no further answer, a half-closed one still gets
those it has asked for. Every wait has a deadline, checked once a second for all connections.
Subclasses say what is done with a request: ``web/channel.py`` answers it, ``edge/channel.py``
passes it on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf
from typing import Any, Generic, TypeVar

from twisted.internet import protocol
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.http.heads import MAX_HEAD, Fault, find_end
from svcserver.kernel.every import Every

log = Logger()

LINGER_S = 3.0  # how long a refused client may go on sending before it is cut
MAX_LINGER = 1024 * 1024  # bytes of that
MAX_BACKLOG = 64 * 1024  # bytes of later requests that may wait
IN_A_ROW = 16  # requests that are taken at once, then other connections have their turn
SWEEP_S = 1
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"Connection: close\r\n"
CR = 13


@implementer(IHalfCloseableProtocol, IPushProducer)
class Connection(protocol.Protocol, ABC):
    """The server's end of one client connection; subclasses handle the requests."""

    transport: Any
    secure = False  # TLS is underneath
    most_thrown = MAX_LINGER  # bytes of a refused request that are heard out

    def __init__(self, factory: Any, peer: str) -> None:
        self.factory: Any = factory
        self.peer = peer
        self.waiting = b""  # bytes that could not be used yet
        self._skipped = False  # the empty line before the next request
        self._searched = 0  # bytes of ``waiting`` in which the end of a head is not
        self.since = 0.0  # when the present wait began
        self.closing = self.half_closed = False
        self.unread = False  # the client has not read what was written
        self.resting = False  # no byte has come of a further request
        self._advancing = False
        self._later = False  # requests wait: for the client to read, or for their turn
        self._turn: Any = None  # the call that gives it back
        self._holds: set[str] = set()
        self._thrown = 0
        self._deadline, self._due = inf, self.cut

    # -- what an owner says ----------------------------------------------------

    @abstractmethod
    def is_busy(self) -> bool:
        """Whether a request is being read or answered, so that the next one has to wait."""

    @abstractmethod
    def use(self) -> bool:
        """Take bytes of ``waiting`` for the current request; False if it takes none."""

    @abstractmethod
    def begin(self, raw: bytes) -> None:
        """Begin the request whose complete head is ``raw``; raises Fault."""

    @abstractmethod
    def owes(self) -> bool:
        """Whether a client that has half-closed still gets an answer."""

    @abstractmethod
    def faulty(self, fault: Fault) -> None:
        """End the connection on a malformed message, with an answer if none has begun."""

    @abstractmethod
    def awake(self) -> None:
        """The first bytes of a head have come, at ``since``: start the deadline of the rest."""

    @property
    @abstractmethod
    def read_s(self) -> float:
        """Seconds that the client may take to read the last answer."""

    # -- reading ---------------------------------------------------------------

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)
        self.transport.registerProducer(self, True)
        self.factory.opened(self)

    def dataReceived(self, data: bytes) -> None:
        """Parse bytes, or discard them once the connection is closing."""
        if self.closing:
            self._thrown += len(data)
            if self._thrown > self.most_thrown:
                self.cut()
            return
        self.waiting = self.waiting + data if self.waiting else data
        self.advance()
        if len(self.waiting) > MAX_BACKLOG:
            self.hold("backlog")

    def advance(self) -> None:
        """Handle the bytes in ``waiting`` as far as the current request allows."""
        if self._advancing or self._turn is not None:
            return
        if not self.waiting and not self.half_closed and not self._holds:
            self._later = False
            return
        self._advancing = True
        try:
            self._later = self._take_requests()
        except Fault as fault:
            self.faulty(fault)
        finally:
            self._advancing = False
        if self._holds and len(self.waiting) <= MAX_BACKLOG:
            self.release("backlog")
        if self.half_closed and not self._later and not self.owes():
            self.end()

    def _take_requests(self) -> bool:
        """Handle waiting requests; gives whether ``advance`` must be called again later."""
        left = IN_A_ROW
        while self.waiting and not self.closing:
            if self.is_busy():
                if not self.use():
                    return False
            elif self.unread:
                return True
            elif left == 0:
                self._turn = self.factory.clock.callLater(0, self._take_turn)
                return True
            elif self._take_head():
                left -= 1
            else:
                return False
        return False

    def _take_turn(self) -> None:
        self._turn = None
        self.advance()

    def _take_head(self) -> bool:
        if self.waiting[0] == CR and not self._skipped:
            self._skip_empty_line()
            if not self.waiting or self.waiting == b"\r":
                return False  # still at rest: no byte of a head has come
        waiting, searched = self.waiting, self._searched
        end = find_end(waiting, MAX_HEAD, searched)
        if end < 0:
            self._searched = len(waiting)
            if self.resting:
                self.resting, self.since = False, self.factory.clock.seconds()
                self.awake()
            return False
        if searched:
            self._searched = 0
        if end == len(waiting):
            self.waiting = b""
        else:
            waiting, self.waiting = waiting[:end], waiting[end:]
        self._skipped = False
        self.begin(waiting)
        return True

    def _skip_empty_line(self) -> None:
        """Ignore one empty line before a request line (RFC 9112 section 2.2); more is a fault."""
        if self.waiting.startswith(b"\r\n"):
            self.waiting, self._skipped = self.waiting[2:], True

    def hold(self, reason: str) -> None:
        """Stop reading from the client until every reason has been released."""
        if self.closing:
            return
        if not self._holds:
            self.transport.pauseProducing()
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        """Take back ``hold(reason)``; reading goes on when no reason is left."""
        if reason in self._holds:
            self._holds.discard(reason)
            if not self._holds and self.connected and not self.closing:
                self.transport.resumeProducing()

    # -- back-pressure of a client that reads too slowly -----------------------

    def pauseProducing(self) -> None:
        """The client reads too slowly: begin no further answer."""
        self.unread = True

    def resumeProducing(self) -> None:
        """The client has read what was written."""
        self.unread = False
        self.advance()

    def stopProducing(self) -> None:
        """Nothing to do: Twisted calls ``connectionLost`` too."""

    # -- waits and ends --------------------------------------------------------

    def within(self, seconds: float, due: Callable[[], None]) -> None:
        """Call ``due`` in so many seconds, unless another wait replaces this one."""
        self.since = since = self.factory.clock.seconds()
        self._deadline, self._due = since + seconds, due

    def until(self, deadline: float, due: Callable[[], None]) -> None:
        """The same at a time of the reactor's clock, without a new ``since``; ``inf``: never."""
        self._deadline, self._due = deadline, due

    def rest(self, seconds: float) -> None:
        """Wait for the next request; close after so many seconds without one."""
        self.resting = True
        self.since = since = self.factory.clock.seconds()
        self._deadline, self._due = since + seconds, self.end

    def sweep(self, now: float) -> None:
        """Act on a deadline that has passed; called once a second."""
        if now >= self._deadline:
            self._deadline = inf
            self._due()

    def end(self, *, linger: bool = False) -> None:
        """Close once all is written; ``linger``: read on, or a reset may destroy the answer."""
        if self.closing:
            return
        self.closing, self.waiting = True, b""
        self.within(LINGER_S if linger else self.read_s, self.cut)
        if self._holds:
            self._holds.clear()
            self.transport.resumeProducing()
        self.transport.unregisterProducer()
        if linger and not self.half_closed and not self.secure:
            self.transport.loseWriteConnection()  # TLS hears a peer out by itself
        else:
            self.transport.loseConnection()

    def cut(self) -> None:
        """Abort the connection; what was written may be lost."""
        self.closing, self._deadline = True, inf
        self.transport.abortConnection()

    def readConnectionLost(self) -> None:
        """The client has half-closed: it sends no more, and gets the answers due."""
        self.half_closed = True
        if self.closing:
            self.transport.loseConnection()
        else:
            self.advance()

    def writeConnectionLost(self) -> None:
        """Nothing to do: we closed that side ourselves."""

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        self.closing, self._deadline = True, inf
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self.factory.gone(self, reason)


C = TypeVar("C", bound=Connection)


class Connections(protocol.Factory, Generic[C]):
    """All connections of a listener; checks their deadlines once a second, while there are any.

    ``sweeps``: others who want that round, as pools do; they say whether they want another.
    """

    noisy = False

    def __init__(self, clock: IReactorTime) -> None:
        self.clock = clock
        self.channels: dict[C, None] = {}  # in the order in which they came
        self.stopping = False
        self.sweeps: list[Callable[[float], bool]] = []
        self._rounds = Every(clock, SWEEP_S, self._sweep, "a round over the connections")

    def startFactory(self) -> None:
        self.stopping = False

    def stopFactory(self) -> None:
        """The listener is closed; the deadlines are checked while connections are open."""
        self.stopping = True
        if not self.channels:
            self.at_rest()

    def opened(self, channel: C) -> None:
        self.channels[channel] = None
        if not self._rounds.running:
            self._rounds.startService()

    def gone(self, channel: C, why: Failure) -> None:
        self.channels.pop(channel, None)
        if not self.channels and self.stopping:
            self.at_rest()

    def at_rest(self) -> None:
        """The listener is closed and the last connection gone."""
        self._rounds.stopService()

    def _sweep(self) -> None:
        now = self.clock.seconds()
        for channel in list(self.channels):
            try:
                channel.sweep(now)
            except Exception:
                log.failure("looking for connections that are overdue failed")
        wanted = [sweep(now) for sweep in self.sweeps]
        if not self.channels and not any(wanted):
            self._rounds.stopService()  # until the next connection
