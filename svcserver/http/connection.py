"""The server side of an HTTP/1.1 connection: pipelining, back-pressure, deadlines.

Requests are handled one after another. After ``IN_A_ROW`` requests, other connections get their
turn. Bytes of later requests are buffered, up to ``MAX_BACKLOG``. A client that does not read gets
no further answer; a half-closed client still gets the answers to its earlier requests. Every wait
for the client has a deadline; the deadlines of all connections are checked once a second.

``Connection`` calls ``start_request`` once for each request, and ``take_body`` whenever bytes
arrive while ``stage`` is ``RECEIVING``. The subclass changes the stage with ``receive``,
``await_answer`` and, once the answer is written, ``next_request`` or ``end``. ``web/channel.py``
answers requests, ``edge/channel.py`` forwards them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from math import inf
from typing import Any, Generic, TypeVar

from attrs import frozen
from twisted.internet import protocol
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.http.heads import MAX_HEAD, Fault, find_end
from svcserver.kernel.every import Every

log = Logger()

LINGER_S = 3.0  # how long a refused client may keep sending before it is cut
MAX_LINGER = 1024 * 1024  # how many bytes a refused client may send in that time
MAX_BACKLOG = 64 * 1024  # maximum buffered bytes of later requests
IN_A_ROW = 16  # requests handled in a row before other connections get their turn
SWEEP_S = 1
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CLOSE = b"Connection: close\r\n"
CR = 13


class RequestStage(Enum):
    """The state of a connection's current request."""

    IDLE = "idle"  # no current request
    RECEIVING = "receiving"  # a body or a tunnel: bytes go to ``take_body``
    ANSWERING = "answering"  # bytes are buffered; a half-closed client still gets the answer


IDLE, RECEIVING, ANSWERING = RequestStage


@frozen
class Deadlines:
    """The time limits, in seconds, for the things that a connection waits for."""

    headers_s: float = 10.0  # from the first byte of a head to its last
    keep_alive_s: float = 65.0  # without a byte of a further request
    idle_s: float = 120.0  # for the client to read the last answer


@implementer(IHalfCloseableProtocol, IPushProducer)
class Connection(protocol.Protocol, ABC):
    """The server side of one client connection; subclasses handle the requests."""

    transport: Any
    limits: Deadlines
    secure = False  # True if the connection uses TLS
    max_discarded = MAX_LINGER  # bytes of a refused request that are read and dropped

    def __init__(self, factory: Any, peer: str) -> None:
        self.factory: Any = factory
        self.peer = peer
        self.stage = IDLE
        self.waiting = b""  # bytes that could not be handled yet
        self._skipped = False  # True if an empty line before the next request was dropped
        self._searched = 0  # bytes of ``waiting`` already searched for the end of the head
        self.since = 0.0  # when the current wait began
        self.began = 0.0  # when the first bytes of the current request arrived
        self.closing = self.half_closed = False
        self.unread = False  # the client has not read what was written
        self.resting = False  # no byte of a further request has arrived
        self._advancing = False
        self._later = False  # requests wait until the client reads, or for their turn
        self._turn: Any = None  # the scheduled call after the other connections' turn
        self._holds: set[str] = set()
        self._discarded = 0
        self._deadline, self._due = inf, self.cut

    # -- a subclass's part -----------------------------------------------------

    @abstractmethod
    def start_request(self, raw: bytes) -> None:
        """Start the request whose complete head is ``raw``; raises Fault."""

    @abstractmethod
    def take_body(self) -> None:
        """Take the current request's bytes from ``waiting``; raises Fault."""

    @abstractmethod
    def on_fault(self, fault: Fault) -> None:
        """End the connection after a malformed message; send an error if no answer has begun."""

    def on_late_head(self) -> None:
        """End the connection, because a request head took longer than ``headers_s``."""
        self.cut()

    # -- reading ---------------------------------------------------------------

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)
        self.transport.registerProducer(self, True)
        self.factory.add(self)

    def dataReceived(self, data: bytes) -> None:
        """Parse bytes, or discard them once the connection is closing."""
        if self.closing:
            self._discarded += len(data)
            if self._discarded > self.max_discarded:
                self.cut()
            return
        self.waiting = self.waiting + data if self.waiting else data
        self.advance()
        if len(self.waiting) > MAX_BACKLOG:
            self.hold("backlog")

    def receive(self) -> None:
        """Pass the buffered bytes and all following bytes to ``take_body``."""
        self.stage = RECEIVING
        self.advance()

    def await_answer(self) -> None:
        """Remove the deadline, because the client now waits for the server."""
        self.stage, self._deadline = ANSWERING, inf

    def next_request(self) -> None:
        """Read the next request; close the connection if no byte comes within ``keep_alive_s``."""
        self.stage, self.resting = IDLE, True
        self.since = since = self.factory.clock.seconds()
        self._deadline, self._due = since + self.limits.keep_alive_s, self.end
        self.advance()

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
            self.on_fault(fault)
        finally:
            self._advancing = False
        if self._holds and len(self.waiting) <= MAX_BACKLOG:
            self.release("backlog")
        if self.half_closed and not self._later and self.stage is not ANSWERING:
            self.end()

    def _take_requests(self) -> bool:
        """Handle waiting requests; return whether ``advance`` must be called again later."""
        left = IN_A_ROW
        while self.waiting and not self.closing:
            if self.stage is RECEIVING:
                self.take_body()
            elif self.stage is ANSWERING:
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
            if self.waiting.startswith(b"\r\n"):  # one blank line is allowed: RFC 9112 section 2.2
                self.waiting, self._skipped = self.waiting[2:], True
            if not self.waiting or self.waiting == b"\r":
                return False  # still idle: no byte of a head has arrived
        waiting, searched = self.waiting, self._searched
        end = find_end(waiting, MAX_HEAD, searched)
        if self.resting:
            self.began = self.factory.clock.seconds()
        if end < 0:
            self._searched = len(waiting)
            if self.resting:
                self.resting, self.since = False, self.began
                self.until(self.began + self.limits.headers_s, self.on_late_head)
            return False
        if searched:
            self._searched = 0
        if end == len(waiting):
            self.waiting = b""
        else:
            waiting, self.waiting = waiting[:end], waiting[end:]
        self._skipped = False
        self.stage = ANSWERING
        self.start_request(waiting)
        return True

    def hold(self, reason: str) -> None:
        """Stop reading from the client until ``release(reason)`` is called."""
        if self.closing:
            return
        if not self._holds:
            self.transport.pauseProducing()
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        """Undo ``hold(reason)``; reading resumes when no reason is left."""
        if reason in self._holds:
            self._holds.discard(reason)
            if not self._holds and self.connected and not self.closing:
                self.transport.resumeProducing()

    # -- back-pressure of a client that reads too slowly -----------------------

    def pauseProducing(self) -> None:
        """Start no further answer for now, because the client reads too slowly."""
        self.unread = True

    def resumeProducing(self) -> None:
        """Resume answering: the client has read the buffered bytes."""
        self.unread = False
        self.advance()

    def stopProducing(self) -> None:
        """Do nothing: Twisted also calls ``connectionLost``."""

    # -- waits and ends --------------------------------------------------------

    def within(self, seconds: float, due: Callable[[], None]) -> None:
        """Call ``due`` after ``seconds``, unless another deadline is set before that."""
        self.since = since = self.factory.clock.seconds()
        self._deadline, self._due = since + seconds, due

    def until(self, deadline: float, due: Callable[[], None]) -> None:
        """Call ``due`` at the time ``deadline`` of the reactor's clock; ``inf`` means never."""
        self._deadline, self._due = deadline, due

    def sweep(self, now: float) -> None:
        """If the deadline has passed, call its action. ``Connections`` calls this once a second."""
        if now >= self._deadline:
            self._deadline = inf
            self._due()

    def end(self, *, linger: bool = False) -> None:
        """Close the connection after everything is written.

        If ``linger`` is true, bytes that the client still sends are read and discarded. Unread
        bytes could cause a reset, and the client could lose the answer.
        """
        if self.closing:
            return
        self.closing, self.waiting = True, b""
        self.within(LINGER_S if linger else self.limits.idle_s, self.cut)
        if self._holds:
            self._holds.clear()
            self.transport.resumeProducing()
        self.transport.unregisterProducer()
        if linger and not self.half_closed and not self.secure:
            self.transport.loseWriteConnection()  # TLS itself waits for the peer
        else:
            self.transport.loseConnection()

    def cut(self) -> None:
        """Abort the connection; bytes that were written may be lost."""
        self.closing, self._deadline = True, inf
        self.transport.abortConnection()

    def readConnectionLost(self) -> None:
        """Answer the pending requests, because the client sends no more."""
        self.half_closed = True
        if self.closing:
            self.transport.loseConnection()
        else:
            self.advance()

    def writeConnectionLost(self) -> None:
        """Do nothing: the server itself closed the write side."""

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        self.closing, self._deadline = True, inf
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self.factory.remove(self, reason)


C = TypeVar("C", bound=Connection)


class Connections(protocol.Factory, Generic[C]):
    """All connections of a listener; while a connection is open, deadlines are checked each second.

    The functions in ``sweeps`` are called every second, too, for example to check the deadlines of
    a connection pool. Each function returns whether it must be called again.
    """

    noisy = False

    def __init__(self, clock: IReactorTime) -> None:
        self.clock = clock
        self.channels: dict[C, None] = {}  # in the order of their arrival
        self.stopping = False
        self.sweeps: list[Callable[[float], bool]] = []
        self._rounds = Every(clock, SWEEP_S, self._sweep, "the check for overdue connections")

    def startFactory(self) -> None:
        self.stopping = False

    def stopFactory(self) -> None:
        """Record that the listener is closed; deadlines of open connections are still checked."""
        self.stopping = True
        if not self.channels:
            self.on_empty()

    def add(self, channel: C) -> None:
        self.channels[channel] = None
        if not self._rounds.running:
            self._rounds.startService()

    def remove(self, channel: C, why: Failure) -> None:
        self.channels.pop(channel, None)
        if not self.channels and self.stopping:
            self.on_empty()

    def on_empty(self) -> None:
        """Stop the checks, because the listener and the last connection are closed."""
        self._rounds.stopService()

    def _sweep(self) -> None:
        now = self.clock.seconds()
        for channel in list(self.channels):
            try:
                channel.sweep(now)
            except Exception:
                log.failure("a check for overdue connections failed")
        wanted = [sweep(now) for sweep in self.sweeps]
        if not self.channels and not any(wanted):
            self._rounds.stopService()  # until the next connection
