"""The chat's WebSocket connections: the only module of the chat that handles bytes and timers.

autobahn does the handshake, the unmasking and the closing. Broadcasts bypass autobahn's
``sendMessage``, so that each frame is encoded only once for all connections.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import txaio
from attrs import define, field
from autobahn.twisted import websocket as autobahn_twisted
from autobahn.twisted.websocket import WebSocketServerFactory, WebSocketServerProtocol
from autobahn.websocket import protocol as autobahn_protocol
from autobahn.websocket.types import ConnectionDeny, ConnectionRequest
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from svcserver.chat.server import ChatServer
from svcserver.chat.session import Session
from svcserver.chat.stanza import MAX_BYTES
from svcserver.http.peers import vouched_address
from svcserver.http.prompt import send
from svcserver.kernel.buggify import buggify
from svcserver.kernel.counters import Counted
from svcserver.kernel.headers import GATEWAY


@define(eq=False)
class TurnEnd:
    """The calls at the end of a reactor turn: first ``write`` calls, then ``echo`` calls.

    All frames of a turn for one connection are written together. A speaker's own line is written
    after the lines for all other occupants.
    """

    clock: IReactorTime
    _writes: deque[Callable[[], None]] = field(factory=deque)
    _echoes: deque[Callable[[], None]] = field(factory=deque)
    _next: IDelayedCall | None = None

    def write(self, call: Callable[[], None]) -> None:
        """Run ``call`` at the end of this reactor turn."""
        self._writes.append(call)
        self._schedule()

    def echo(self, call: Callable[[], None]) -> None:
        """Run ``call`` at the end of this reactor turn, after all ``write`` calls."""
        self._echoes.append(call)
        self._schedule()

    def stop(self) -> None:
        self._writes, self._echoes = deque(), deque()
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _schedule(self) -> None:
        if self._next is None:
            self._next = self.clock.callLater(0, self._run)

    def _run(self) -> None:
        self._next = None
        try:
            for calls in (self._writes, self._echoes):
                for _ in range(len(calls)):
                    calls.popleft()()
        finally:  # the reactor logs an error; the next turn does the rest
            if self._writes or self._echoes:
                self._schedule()


@define(eq=False)
class Behind:
    """A buffer for a speaker's own chat lines, which are sent last in each reactor turn.

    Later frames for the speaker's connection wait behind these lines.
    """

    turn: TurnEnd
    write: Callable[[bytes], None]
    size: int = 0  # bytes that wait
    _held: list[list[bytes]] = field(factory=list)

    def begin(self, frame: bytes) -> None:
        self._held.append([frame])
        self.size += len(frame)
        self.turn.echo(self._release)

    def add(self, frame: bytes) -> None:
        """Buffer a frame, to be sent after the newest buffered chat line."""
        self._held[-1].append(frame)
        self.size += len(frame)

    def release_all(self) -> None:
        """Write all buffered frames now, because the connection is about to close normally."""
        while self._held:
            self._release()

    def drop(self) -> None:
        self.size = 0
        self._held.clear()

    def _release(self) -> None:
        if self._held:
            out = b"".join(self._held.pop(0))
            self.size -= len(out)
            self.write(out)


@define(eq=False)
class TurnShare:
    """A limit on the chat's time in each reactor turn, so that other requests do not wait long.

    Work above the limit waits in one queue for later turns.
    """

    clock: IReactorTime
    _waiting: deque[Callable[[], None]] = field(factory=deque)
    _next: IDelayedCall | None = None
    _used: float = 0.0  # seconds of this turn
    _ended: float = 0.0  # when the last work ended

    def run(self, work: Callable[[], None]) -> None:
        """Do the work now, or later if the limit is reached or other work is already queued."""
        if self._waiting or self._is_used_up():
            self.later(work)
        else:
            self._do(work)

    def later(self, work: Callable[[], None]) -> None:
        """Queue the work for a later reactor turn."""
        self._waiting.append(work)
        if self._next is None:
            self._next = self.clock.callLater(0, self._turn)

    def _is_used_up(self) -> bool:
        if not 0 <= self.clock.seconds() - self._ended < IDLE_S:
            self._used = 0.0
        return self._used > SHARE_S

    def _do(self, work: Callable[[], None]) -> None:
        began = self.clock.seconds()
        try:
            work()
        finally:
            self._ended = self.clock.seconds()
            self._used += self._ended - began

    def _turn(self) -> None:
        self._next, self._used = None, 0.0
        due = len(self._waiting)
        try:
            while due and not self._is_used_up():
                due -= 1
                self._do(self._waiting.popleft())
        finally:
            if self._waiting and self._next is None:
                self._next = self.clock.callLater(0, self._turn)


log = Logger()

SHARE_S = 0.004
IDLE_S = 0.010  # without work of the chat; the turn has surely ended then
BACKLOG = 256 * 1024  # bytes unsent
# for several processes: a join may send a thousand occupants
SHARED_BACKLOG = 1024 * 1024
PORTION = 512  # bytes of one connection handled in one turn
OVER_RATE_S = 0.01  # between two portions of a client that exceeds the stanza rate
MAX_HEAD = 16 * 1024  # bytes of an upgrade request
MAX_FRAGMENTS = 64
HANDSHAKE_S = 10.0
CUT_S = 1.0  # how long a closing handshake may take
SUBPROTOCOL = "xmpp"
REFUSED = {400: "Bad Request", 404: "Not Found", 503: "Service Unavailable"}
ENDS = [("Content-Length", "0"), ("Connection", "close")]  # headers of a refused upgrade


def unsent(transport: Any) -> int:
    """Return the number of unsent bytes in the transport's buffers.

    Twisted has no API for this number. Without Twisted's private ``_tempDataLen``, only one of its
    two buffers counts.
    """
    try:
        size: int = len(transport.dataBuffer) - transport.offset
        size += getattr(transport, "_tempDataLen", 0)
    except AttributeError:  # not a transport of Twisted's own sockets
        return 0
    return size


class _Quiet:
    """A logger for autobahn that drops everything except errors."""

    def nothing(self, *args: object, **fields: object) -> None: ...

    trace = debug = info = warn = nothing

    @staticmethod
    def error(text: str, **fields: object) -> None:
        log.error(text, **fields)


def remove_debug_texts() -> None:
    """Replace autobahn's slow formatters of debug lines.

    autobahn calls the formatters even if the logger drops the lines. They take 28 us for each piece
    of data, and 520 us for each connection.
    """

    def no_text(_: object) -> str:
        return ""

    modules: list[Any] = [autobahn_twisted, autobahn_protocol]
    for module in modules:
        module.hltype = module.hlval = module.pformat = no_text


class ChatProtocol(WebSocketServerProtocol):
    """A WebSocket connection, which implements ``Wire`` for its ``Session``."""

    log: Any = _Quiet()
    transport: Any
    session: Session | None = None
    address = ""
    since = 0.0  # seconds of the clock
    choked = False
    fragments = 0
    _behind: Behind | None = None  # set once the session has sent a line
    _frames: list[bytes] | tuple[()] = ()  # written at the end of this turn
    _unwritten = 0  # bytes of these frames
    _unread = b""
    _waits = False  # for the turn that handles the next bytes
    _paused = False
    _next: Any = None  # the call that ends the wait of a client over the stanza rate
    _cut: Any = None

    def connectionMade(self) -> None:
        """Switch Nagle's algorithm off, because autobahn fails to do so."""
        super().connectionMade()
        self.since = self.factory.chat.seconds()
        switch = getattr(self.transport, "setTcpNoDelay", None)
        if switch is not None:
            switch(True)

    def dataReceived(self, data: bytes) -> None:
        """Handle at most ``PORTION`` bytes per reactor turn; pause reading until all are handled.

        If the client exceeds the stanza rate, there is a pause after each portion. An upgrade
        request that is too long closes the connection.
        """
        self._unread += data
        if self.state == self.STATE_CONNECTING and len(self.data) + len(self._unread) > MAX_HEAD:
            self._unread = b""
            self.dropConnection(abort=True)
        elif not self._waits:
            self._waits = True
            self.factory.share.run(self._handle_portion)
            if self._waits:
                self._paused = True
                self.transport.pauseProducing()

    def _handle_portion(self) -> None:
        portion, self._unread = self._unread[:PORTION], self._unread[PORTION:]
        self._next = None
        if portion:
            super().dataReceived(portion)
        if self.state == self.STATE_CLOSED:
            self._unread = b""
        elif portion and self.session is not None and self.session.over_rate:
            again = partial(self.factory.share.run, self._handle_portion)
            self._next = self.factory.clock.callLater(OVER_RATE_S, again)
            return
        elif self._unread:
            self.factory.share.later(self._handle_portion)
            return
        self._waits = False
        if self._paused and self.state != self.STATE_CLOSED:
            self._paused = False
            self.transport.resumeProducing()

    # -- autobahn calls these ------------------------------------------------

    def onConnect(self, request: ConnectionRequest) -> str | None:
        """Return the subprotocol, or None if the client did not request it.

        If the chat refuses the connection, raises ConnectionDeny with status 503.
        """
        try:
            return self._admit(request)
        except ConnectionDeny:
            raise
        except Exception:  # autobahn would only warn
            log.failure("failed to handle an upgrade request")
            raise ConnectionDeny(503) from None

    def _admit(self, request: ConnectionRequest) -> str | None:
        server = self.factory.chat
        peer = getattr(self.transport.getPeer(), "host", "")
        self.address = vouched_address(
            peer,
            [request.headers.get("x-forwarded-for", "")],
            secret=server.settings.gateway_secret,
            offered=request.headers.get(GATEWAY.decode()),
        )
        if not server.may_connect(self.address):
            raise ConnectionDeny(503)
        return SUBPROTOCOL if SUBPROTOCOL in request.protocols else None

    def failHandshake(
        self, reason: str, code: int = 400, responseHeaders: list[tuple[str, str]] | None = None
    ) -> None:
        """Refuse an upgrade; the status is 404 if the request is no WebSocket request.

        ``reason`` is not sent to the client, because autobahn quotes the request in this text.
        """
        if code == 400:
            self.factory.chat.counters.add(Counted.REFUSALS, "chat_handshake")
        code = code if code in REFUSED else 404
        super().failHandshake(REFUSED[code], code, [*(responseHeaders or []), *ENDS])

    def onOpen(self) -> None:
        self.session = self.factory.chat.connect(self, self.address, self.since)

    def onMessageBegin(self, isBinary: bool) -> None:
        self.fragments = 0
        super().onMessageBegin(isBinary)

    def onMessageFrameBegin(self, length: int) -> None:
        """Limit the number of frames of a message: endless empty frames would fill the memory."""
        self.fragments += 1
        super().onMessageFrameBegin(length)
        if self.fragments > MAX_FRAGMENTS and not self.failedByMe:
            self._max_message_size_exceeded(0, 0, "")

    def _max_message_size_exceeded(self, msg_size: int, max_msg_size: int, reason: str) -> None:
        self.failedByMe = True  # autobahn then discards all later data
        if self.session is not None:
            self.session.end("size")

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        """Handle a stanza; clients may send stanzas as binary messages, too."""
        if self.session is None:
            return
        try:
            self.session.received(payload)
        except Exception:  # a defect may end one connection, but not the process
            log.failure("c={number}: failed to handle a stanza", number=self.session.number)
            self.session.end("refused")

    def onPing(self, payload: bytes) -> None:
        """Answer a WebSocket ping, unless the client has stopped reading."""
        if self.session is not None:
            self.session.count_stanza()
        if self._room_for_more():
            self.sendPong(payload)

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:
        self.factory.gone(self)
        self._unread, self._frames = b"", ()
        if self._next is not None and self._next.active():
            self._next.cancel()
        if self._behind is not None:
            self._behind.drop()
        self.factory.share.run(self._on_connection_lost)

    def _on_connection_lost(self) -> None:
        if self.session is not None:
            self.session.on_connection_lost()
        if self._cut is not None and self._cut.active():
            self._cut.cancel()

    # -- the session calls these ---------------------------------------------

    def send(self, frame: bytes) -> None:
        """Write a frame at the end of this reactor turn; drop it if too much is unsent by then."""
        behind = self._behind
        if behind is not None and behind.size:
            if behind.size <= self.factory.backlog:
                behind.add(frame)
            else:
                self._overflow()
        elif not self.choked:
            if not self._frames:
                self._frames = []
                self.factory.turn_end.write(self._flush)
            self._frames.append(frame)
            self._unwritten += len(frame)
            if self._unwritten > self.factory.backlog:
                self._overflow()

    def send_behind(self, frame: bytes) -> None:
        """See ``Wire.send_behind``; drops the frame if too many bytes are unsent."""
        if self._room_for_more():
            if buggify("chat: a connection ends when others have its line"):
                self.transport.abortConnection()
                return
            if self._behind is None:
                self._behind = Behind(self.factory.turn_end, self._write)
            self._behind.begin(frame)

    def _flush(self) -> None:
        frames, self._frames, self._unwritten = self._frames, (), 0
        if frames:
            self._write(b"".join(frames))

    def take_turn(self, work: Callable[[], None]) -> None:
        """See ``Wire.take_turn``."""
        self.factory.share.run(work)

    def _write(self, frames: bytes) -> None:
        if self._room_for_more():
            # a speaker's own line must not overtake a large write that the transport buffers
            send(self.transport, frames, at_most=self.factory.backlog)

    def _room_for_more(self) -> bool:
        if self.choked or self.state != self.STATE_OPEN:
            return False
        held = 0 if self._behind is None else self._behind.size
        if unsent(self.transport) + held <= self.factory.backlog:
            return True
        self._overflow()
        return False

    def _overflow(self) -> None:
        if self.choked:
            return
        self.choked, self._frames = True, ()
        if self._behind is not None:
            self._behind.drop()
        if self.session is not None:
            # later, since the sender may be iterating over a room
            self.factory.clock.callLater(0, self.session.end, "backlog")

    def end(self, code: int | None, reason: str = "") -> None:
        """See ``Wire.end``; aborts the connection if it is still open after ``CUT_S``."""
        self._flush()
        if self._behind is not None:
            self._behind.release_all()
        if self.choked:
            self.transport.abortConnection()
        elif code is not None:
            self.sendCloseFrame(code, reason.encode())
        else:
            self.dropConnection(abort=False)
        if self._cut is None and self.transport is not None:
            self._cut = self.factory.clock.callLater(CUT_S, self.abort)

    def abort(self) -> None:
        """Close the connection without a closing handshake."""
        if self.transport is not None:
            self.dropConnection(abort=True)  # autobahn handles nothing more
            self.transport.abortConnection()  # even if it was already closing


class ChatFactory(WebSocketServerFactory):
    """The factory of WebSocket connections; autobahn uses ``clock`` for its timers."""

    protocol = ChatProtocol

    def __init__(self, chat: ChatServer, clock: Any) -> None:
        remove_debug_texts()
        loops: Any = txaio
        loops.config.loop = clock  # autobahn makes its timers from txaio's loop
        super().__init__(protocols=[SUBPROTOCOL], reactor=clock)
        # not ``self.server``: autobahn sends that to every client as the Server header
        self.chat, self.clock, self.turn_end = chat, clock, TurnEnd(clock)
        self.share = TurnShare(clock)
        self.backlog = SHARED_BACKLOG if chat.board.shared else BACKLOG
        self.connections: dict[ChatProtocol, None] = {}  # the oldest first
        self.setProtocolOptions(
            webStatus=False,
            maxFramePayloadSize=MAX_BYTES,
            maxMessagePayloadSize=MAX_BYTES,
            openHandshakeTimeout=HANDSHAKE_S,
            closeHandshakeTimeout=0,  # ``end`` cuts: autobahn counts in whole seconds
            failByDrop=True,
        )

    def buildProtocol(self, addr: Any) -> Any:
        """Return a protocol, or None to close the new connection if far too many are open."""
        if len(self.connections) >= 2 * self.chat.settings.max_connections + 64:
            return None
        made: Any = super().buildProtocol(addr)
        self.connections[made] = None
        return made

    def stopFactory(self) -> None:
        super().stopFactory()
        self.turn_end.stop()

    def gone(self, connection: ChatProtocol) -> None:
        self.connections.pop(connection, None)
