"""The two ends of a simulated connection, as Twisted TCP transports."""

from __future__ import annotations

from collections import deque
from typing import Any

from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IHalfCloseableProtocol, ITCPTransport
from twisted.python.failure import Failure
from zope.interface import implementer

HIGH, LOW = 65_536, 16_384  # pending bytes at which a writer pauses and resumes
SOON_S = 0.0001
PIECE, PIECE_S = 400, 0.1  # the bytes a slow reader takes at a time
GIVEN_UP_S = 900.0  # how long bytes without a receiver are resent


@implementer(ITCPTransport)
class End:
    """One end of a connection: an ITCPTransport, with the method names of Twisted."""

    far_end: End
    protocol: Any = None
    dataBuffer = b""  # autobahn's adapter reads these attributes
    offset = 0

    def __init__(self, network: Any, process: Any, here: Any, peer: Any) -> None:
        self.network, self.world, self.process = network, network.world, process
        self.here, self.peer = here, peer
        self.number = network.next_number()
        self.gone = False  # connectionLost was called, or will be
        self.disconnecting = False
        self._fin = False  # we write no more
        self.vanished = False  # the machine lost power: the other end was not notified
        self._unheard_since: float | None = None  # since when sent bytes have had no receiver
        self._paused = False
        self._rests = False  # a slow reader, between two pieces
        self._inbox: deque[bytes] = deque()
        self._inbox_end: BaseException | str | None = None
        self._under_way: deque[tuple[float, Any]] = deque()
        self._bytes = 0  # sent by this end and not yet read by the other end
        self._producer: Any = None
        self._held = False  # the producer was told to pause
        network.ends[self.number] = self
        process.ends[self.number] = self

    def attach(self, protocol: Any) -> None:
        self.protocol = protocol
        protocol.makeConnection(self)

    # -- writing ---------------------------------------------------------------

    @property
    def _tempDataLen(self) -> int:
        return self._bytes

    def write(self, data: bytes) -> None:
        if self.gone or self._fin or not data or (self.disconnecting and not self._producer):
            return
        self._bytes += len(data)
        self._send(bytes(data))
        if self._bytes > HIGH and self._producer is not None and not self._held:
            self._held = True
            self._producer.pauseProducing()

    def writeSequence(self, iovec: Any) -> None:
        self.write(b"".join(iovec))

    def _send(self, what: Any) -> None:
        """Send bytes or the end of the stream, after everything that was sent before.

        ``what`` is the bytes, an exception that ends the stream, or ``half`` if only this side
        closes.
        """
        due = self.world.now + self.network.latency(
            self.process.machine, self.far_end.process.machine
        )
        if self._under_way:
            due = max(due, self._under_way[-1][0])
        self._under_way.append((due, what))
        if len(self._under_way) == 1:
            self.world.at(due, self._deliver)

    def _deliver(self) -> None:
        if not self._under_way:
            return
        if self.network.silent and self.network.loses(self.process, self.far_end.process):
            self.world.later(1.0, self._deliver)  # sent again, like lost packets
            return
        if self.far_end.vanished:
            self._to_nobody()
            return
        peer, pieces, ending = self.far_end, [], None
        while self._under_way and self._under_way[0][0] <= self.world.now:
            _, what = self._under_way.popleft()
            if isinstance(what, bytes):
                pieces.append(what)
            else:
                ending = what
        if self._under_way:
            self.world.at(self._under_way[0][0], self._deliver)
        if peer.gone:
            return
        if pieces:
            peer.arrived(b"".join(pieces))
        if ending is not None:
            peer.peer_ended(ending)

    def _to_nobody(self) -> None:
        """Retry the delivery while the other machine is off, then break the connection.

        The connection breaks when the machine has power again, or after ``GIVEN_UP_S`` seconds.
        """
        if self._unheard_since is None:
            self._unheard_since = self.world.now
        off = self.far_end.process.machine in self.network.off
        if off and self.world.now - self._unheard_since < GIVEN_UP_S:
            self.world.later(1.0, self._deliver)
        else:
            self._under_way.clear()
            self.drop_connection(ConnectionLost())

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Register a producer for back-pressure.

        A pull producer is asked for data again and again until it is unregistered.
        """
        self._producer = producer
        self._pulls = not streaming
        if self.gone:
            producer.stopProducing()
        elif self._pulls:
            self._pull()

    _pulls = False

    def _pull(self) -> None:
        if self._producer is not None and self._pulls and not self.gone:
            if self._bytes <= LOW:
                self._producer.resumeProducing()
            self.world.later(0.001, self._pull)

    def unregisterProducer(self) -> None:
        self._producer = None
        if self.disconnecting:
            self._finish()

    def taken(self, count: int) -> None:
        """Record that the other end has read ``count`` bytes from this end."""
        self._bytes -= count
        if self._held and self._bytes <= LOW and self._producer is not None and not self.gone:
            self._held = False
            self._producer.resumeProducing()

    # -- reading ---------------------------------------------------------------

    def arrived(self, data: bytes) -> None:
        """Receive bytes from the network; they are read unless the process is frozen or paused."""
        if self.process.dead or self.gone:
            return
        self._inbox.append(data)
        self._deliver_inbox()

    def read_on(self) -> None:
        """Resume reading after the process was frozen."""
        if not self.gone and not self.process.dead:
            self._deliver_inbox()

    def _deliver_inbox(self) -> None:
        if self.process.frozen_until > self.world.now:
            return
        while self._inbox and not self._paused and not self.gone and not self._rests:
            data = self._inbox.popleft()
            if self.network.slow and self.process.machine in self.network.slow:
                data = self._piece(data)
            self.far_end.taken(len(data))
            self.network.sent(self.number, self.process.name, data)
            self.process.guard(self.protocol.dataReceived, data)
        if self._inbox_end is not None and not self._inbox and not self._paused:
            how, self._inbox_end = self._inbox_end, None
            self._hear(how)

    def _piece(self, data: bytes) -> bytes:
        """Return the bytes that a slow reader reads now; the remaining bytes are read later."""
        if len(data) > PIECE:
            self._inbox.appendleft(data[PIECE:])
        self._rests = True
        self.process.callLater(PIECE_S, self._rested)
        return data[:PIECE]

    def _rested(self) -> None:
        self._rests = False
        self._deliver_inbox()

    def peer_ended(self, how: Any) -> None:
        """Handle the end of the stream from the other end."""
        if self.gone or self.process.dead:
            return
        if self.process.frozen_until > self.world.now:
            self.world.at(self.process.frozen_until, lambda: self.peer_ended(how))
            return
        if isinstance(how, ConnectionLost):
            self.drop_connection(how)
            return
        self._inbox_end = how
        self._deliver_inbox()

    def _hear(self, how: Any) -> None:
        if self.gone:
            return
        if how == "half":
            if IHalfCloseableProtocol.providedBy(self.protocol):
                self.process.guard(self.protocol.readConnectionLost)
            else:
                self.loseConnection()
            return
        self.drop_connection(how)

    def pauseProducing(self) -> None:
        """Pause reading."""
        self._paused = True

    def resumeProducing(self) -> None:
        if self._paused:
            self._paused = False
            self.process.callLater(0, self._deliver_inbox)

    def stopProducing(self) -> None:
        self.loseConnection()

    # -- ends ------------------------------------------------------------------

    def loseConnection(self) -> None:
        """Close the connection after everything is written."""
        if self.gone or self.disconnecting:
            return
        self.disconnecting = True
        if self._producer is None:
            self._finish()

    def _finish(self) -> None:
        if self.gone:
            return
        self._fin = True
        self._send(ConnectionDone())
        self.process.callLater(SOON_S, lambda: self.drop_connection(ConnectionDone()))

    def loseWriteConnection(self) -> None:
        """Close the writing side; reading continues."""
        if not self.gone and not self._fin:
            self._fin = True
            self._send("half")

    def abortConnection(self) -> None:
        """Close the connection immediately; pending bytes are lost."""
        if self.gone or self._aborted:
            return
        self._aborted = True
        self._under_way.clear()
        self._fin = True
        self._send(ConnectionLost())
        self.process.callLater(0, lambda: self.drop_connection(ConnectionAborted()))

    _aborted = False

    def reset(self) -> None:
        """Break the connection and notify both ends."""
        self._under_way.clear()
        self.far_end._under_way.clear()
        self.drop_connection(ConnectionLost())
        self.far_end.drop_connection(ConnectionLost())

    def vanish(self) -> None:
        """Simulate a power loss: send nothing, and do not notify the other end."""
        self.gone = self.vanished = self._fin = True
        self.network.forget(self)
        self._inbox.clear()

    def stall(self, seconds: float) -> None:
        """Read nothing for ``seconds``."""
        self._rests = True
        self.process.callLater(seconds, self._rested)

    def drop_connection(self, why: Exception) -> None:
        """Close this end and notify its protocol, once."""
        if self.gone:
            return
        self.gone = True
        self.network.forget(self)
        self._inbox.clear()
        producer, self._producer = self._producer, None
        if producer is not None and not self.process.dead:
            self.process.guard(producer.stopProducing)
        if self.protocol is not None and not self.process.dead:
            self.process.guard(self.protocol.connectionLost, Failure(why))
        if not self._fin and not self.far_end.gone:
            self._fin = True
            self._send(ConnectionLost() if isinstance(why, ConnectionLost) else ConnectionDone())

    def release(self) -> None:
        """Release the protocol of a dead process; the other end may still refer to this end."""
        self.protocol = self._producer = None

    # -- what a TCP transport has besides ----------------------------------------

    def getPeer(self) -> Any:
        return self.peer

    def getHost(self) -> Any:
        return self.here

    def getTcpNoDelay(self) -> bool:
        return True

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Do nothing: the simulation never delays small writes."""

    def getTcpKeepAlive(self) -> bool:
        """Return True: the simulation always detects a dead peer."""
        return True

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Do nothing: see ``getTcpKeepAlive``."""
