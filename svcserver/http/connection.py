"""A client's connection, seen from the server: whose turn it is, and when a wait is over.

What every listener of ours needs is here: requests are taken one after another, a few at a
time; what comes too early waits, within a bound; who does not read gets no further answer; who
has said everything still gets what is due; and every wait has an end, looked at in one round
over all connections. What a request is and how it is answered the owner says: ``web/channel.py``
answers itself, ``edge/channel.py`` passes on.
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


@implementer(IHalfCloseableProtocol, IPushProducer)
class Connection(protocol.Protocol, ABC):
    """The server's end of one client connection; an owner says what its requests are."""

    transport: Any
    secure = False  # TLS is underneath

    def __init__(self, factory: Any, peer: str) -> None:
        self.factory: Any = factory
        self.peer = peer
        self.waiting = b""  # bytes that could not be used yet
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

    @property
    @abstractmethod
    def in_work(self) -> bool:
        """Whether a request is being read or answered, so that the next one has to wait."""

    @abstractmethod
    def use(self) -> bool:
        """Take what it can of ``waiting`` for the request in work; False where it takes none."""

    @abstractmethod
    def begin(self, raw: bytes) -> None:
        """A whole head has come; raises Fault."""

    @abstractmethod
    def owes(self) -> bool:
        """Whether something is due to a client that will say nothing more."""

    @abstractmethod
    def faulty(self, fault: Fault) -> None:
        """What has come cannot be read: answer if none has begun, and end."""

    @abstractmethod
    def awake(self) -> None:
        """A part of a head is here, and ``since`` is now: the rest of it is due."""

    @property
    @abstractmethod
    def read_s(self) -> float:
        """How long the client may take to read the last answer."""

    # -- reading ---------------------------------------------------------------

    def connectionMade(self) -> None:
        """Count it among the others."""
        self.transport.setTcpNoDelay(True)
        self.transport.registerProducer(self, True)
        self.factory.opened(self)

    def dataReceived(self, data: bytes) -> None:
        """Bytes of a request, or of nobody's interest any more."""
        if self.closing:
            self._thrown += len(data)
            if self._thrown > MAX_LINGER:
                self.cut()
            return
        self.waiting = self.waiting + data if self.waiting else data
        self.advance()
        if len(self.waiting) > MAX_BACKLOG:
            self.hold("backlog")

    def advance(self) -> None:
        """Go on with the bytes that wait, as far as they can be used now."""
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
        """Whether there is more to do, later."""
        left = IN_A_ROW
        while self.waiting and not self.closing:
            if self.in_work:
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
        self.begin(waiting)
        return True

    def hold(self, reason: str) -> None:
        """Read no more until every reason is gone."""
        if self.closing:
            return
        if not self._holds:
            self.transport.pauseProducing()
        self._holds.add(reason)

    def release(self, reason: str) -> None:
        """One reason less."""
        if reason in self._holds:
            self._holds.discard(reason)
            if not self._holds and self.connected and not self.closing:
                self.transport.resumeProducing()

    # -- back-pressure of a client that reads too slowly -----------------------

    def pauseProducing(self) -> None:
        """No further answer before it has read."""
        self.unread = True

    def resumeProducing(self) -> None:
        """It has read what was written."""
        self.unread = False
        self.advance()

    def stopProducing(self) -> None:
        """The connection is gone; ``connectionLost`` says so."""

    # -- waits and ends --------------------------------------------------------

    def within(self, seconds: float, due: Callable[[], None]) -> None:
        """From now on, ``due`` is what happens when the wait has lasted so long."""
        self.since = since = self.factory.clock.seconds()
        self._deadline, self._due = since + seconds, due

    def until(self, deadline: float, due: Callable[[], None]) -> None:
        """The same by a time, for a wait that has begun before; ``inf`` for none."""
        self._deadline, self._due = deadline, due

    def rest(self, seconds: float) -> None:
        """The next request may take so long to begin."""
        self.resting = True
        self.since = since = self.factory.clock.seconds()
        self._deadline, self._due = since + seconds, self.end

    def sweep(self, now: float) -> None:
        """In every round: is anything due?"""
        if now >= self._deadline:
            self._deadline = inf
            self._due()

    def end(self, *, linger: bool = False) -> None:
        """Close after what is written; ``linger``: a client that still sends is heard out."""
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
        """End it now."""
        self.closing, self._deadline = True, inf
        self.transport.abortConnection()

    def readConnectionLost(self) -> None:
        """The client has sent everything; it still wants its answers."""
        self.half_closed = True
        if self.closing:
            self.transport.loseConnection()
        else:
            self.advance()

    def writeConnectionLost(self) -> None:
        """Our own doing."""

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        """Let go of everything."""
        self.closing, self._deadline = True, inf
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self.factory.gone(self, reason)


C = TypeVar("C", bound=Connection)


class Connections(protocol.Factory, Generic[C]):
    """All connections of a listener, looked over once a second."""

    noisy = False

    def __init__(self, clock: IReactorTime) -> None:
        self.clock = clock
        self.channels: set[C] = set()
        self.stopping = False
        self.sweeps: list[Callable[[float], None]] = []  # others who want the round, as pools
        self._rounds = Every(clock, SWEEP_S, self._sweep, "a round over the connections")

    def startFactory(self) -> None:
        """Begin the rounds."""
        self.stopping = False
        self._rounds.startService()

    def stopFactory(self) -> None:
        """Nothing listens any more; rounds go on while connections are open."""
        self.stopping = True
        if not self.channels:
            self.at_rest()

    def opened(self, channel: C) -> None:
        """A connection is up."""
        self.channels.add(channel)

    def gone(self, channel: C, why: Failure) -> None:
        """A connection is down."""
        self.channels.discard(channel)
        if not self.channels and self.stopping:
            self.at_rest()

    def at_rest(self) -> None:
        """The last connection of a listener that has stopped is gone."""
        self._rounds.stopService()

    def _sweep(self) -> None:
        now = self.clock.seconds()
        for each in [*(channel.sweep for channel in self.channels), *self.sweeps]:
            try:
                each(now)
            except Exception:
                log.failure("a round over the connections failed")
