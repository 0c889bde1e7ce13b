"""A connection of one of our services: requests are read whole and answered in turn.

Framing is read by the house's one strict reading (``svcserver.http``); an answer leaves in
one piece. Every wait has an end, looked at in one round over all connections.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet import protocol
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol, IPushProducer
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.http.bodies import Body, body_of
from svcserver.http.heads import Fault, find_end
from svcserver.http.prompt import send
from svcserver.web.request import HttpRequest
from svcserver.web.request_head import Asked
from svcserver.web.response import CONTINUE, Stream, payload, said
from svcserver.web.routes import Answer
from svcserver.web.unread import FAIR

log = Logger()

IDLE_S = 60  # a keep-alive connection without a byte
RECEIVE_S = 120  # from the first to the last byte of a request, and for a reader that stalls
LINGER_S = 2  # how long a refused upload may go on before the connection is cut
FAREWELL_S = 2  # how long a client that sends no more is waited for with its answer
MAX_HELD = 256 * 1024 * 1024  # bytes of bodies in memory, of all connections together
MAX_BACKLOG = 64 * 1024  # bytes of later requests that may wait
IN_A_ROW = 16  # pipelined requests, then other connections have their turn
PROMPT = 128 * 1024  # bytes of an answer offered to the socket at once


@define
class Upload:
    """A body on its way in; bounded."""

    asked: Asked
    request: HttpRequest
    body: Body
    limit: int
    size: int = field(default=0, init=False)
    _parts: list[bytes] = field(factory=list, init=False)

    def feed(self, data: bytes) -> tuple[bool, bytes]:
        """False when it grows beyond the limit; and what follows the body. Raises Fault."""
        part, rest = self.body.feed(data)
        self.size += len(part)
        if self.size > self.limit:
            return False, b""
        if part:
            self._parts.append(part)
        if self.body.done:
            parts, self._parts = self._parts, []
            self.request.body = parts[0] if len(parts) == 1 else b"".join(parts)
        return True, rest


@implementer(IHalfCloseableProtocol, IPushProducer)
class Channel(protocol.Protocol):
    """The server's end of one client connection."""

    transport: Any

    def __init__(self, factory: Any, peer: str) -> None:
        self.factory: Any = factory
        self.peer = peer
        self.since = 0.0  # when the present wait began
        self._waiting = b""
        self._upload: Upload | None = None
        self._turn: HttpRequest | None = None  # the request being answered
        self._work: Deferred[Any] | None = None
        self._stream: Stream | None = None
        self._timer: Any = None
        self._holding = 0  # bytes of a body in memory
        self._rest = b""  # of a large answer, which leaves piece by piece
        self._rest_at = 0
        self._close_after = False  # the stream, or the large answer
        self._advancing = self._closing = self._half_closed = False
        self._held = False  # the client does not read
        self._paused = False  # we do not read

    @property
    def busy(self) -> bool:
        """Whether an answer is due."""
        return self._turn is not None and not self._turn.hopeless

    # -- reading ---------------------------------------------------------------

    def connectionMade(self) -> None:
        """Start the clock of the first request."""
        self.transport.setTcpNoDelay(True)
        self.transport.registerProducer(self, True)
        self.since = self.factory.clock.seconds()
        self.factory.channels.add(self)

    def dataReceived(self, data: bytes) -> None:
        """Bytes of a request, or of nobody's interest any more."""
        if self._closing:
            return
        if self._waiting:
            self._waiting += data
        else:
            self._waiting = data
            if self._turn is None and self._upload is None:
                self.since = self.factory.clock.seconds()
        if self._turn is None:
            self.advance()
        if len(self._waiting) > MAX_BACKLOG and not self._paused and not self._closing:
            self._paused = True
            self.transport.pauseProducing()

    def advance(self) -> None:
        """Go on with the bytes that wait, as far as they can be used now."""
        if self._advancing:
            return
        self._advancing, later = True, False
        try:
            later = self._read()
        except Fault as fault:
            self.factory.unreadable(self.peer, fault)
            self._refuse(Answer(fault.status))
        finally:
            self._advancing = False
        if self._paused and not self._closing and len(self._waiting) <= MAX_BACKLOG:
            self._paused = False
            self.transport.resumeProducing()
        if self._half_closed and self._turn is None and not later:
            self._end()

    def _read(self) -> bool:
        """Whether there is more to do, later."""
        left = IN_A_ROW
        while self._waiting and self._turn is None and not self._closing:
            if self._held:
                return True
            if self._upload is not None:
                self._read_body(self._upload)
            elif left == 0:
                self.factory.clock.callLater(0, self.advance)
                return True
            elif self._read_head():
                left -= 1
            else:
                return False
        return False

    def _read_head(self) -> bool:
        waiting = self._waiting
        end = find_end(waiting)
        if end < 0:
            return False
        if end == len(waiting):
            raw, self._waiting = waiting, b""
        else:
            raw, self._waiting = waiting[:end], waiting[end:]
        asked = self.factory.heads.read(raw)
        request = HttpRequest(asked.method, asked.path, asked.query, asked.fields, self.peer)
        if asked.length == 0:
            self._ask(asked, request)
            return True
        front = self.factory.front
        length = asked.length or 0
        if 0 < length <= min(len(self._waiting), FAIR, front.max_json):
            # it is all here: an early look would save nothing, and do the work twice
            request.body, self._waiting = self._waiting[:length], self._waiting[length:]
            self._hold(length)
            self._ask(asked, request)
            return True
        refusal = front.early(request, asked.length)
        if refusal is not None:
            self._refuse(refusal)
            return True
        if asked.expects:
            send(self.transport, CONTINUE)
        self._upload = Upload(asked, request, body_of(asked.length), front.max_json)
        return True

    def _read_body(self, upload: Upload) -> None:
        good, self._waiting = upload.feed(self._waiting)
        self._hold(upload.size)
        if not good:
            self._refuse(self.factory.front.page(413, None))
        elif upload.size > FAIR and self.factory.held > MAX_HELD:
            self._refuse(Answer(503, headers={"Retry-After": "1"}))
        elif upload.body.done:
            self._upload = None
            self._ask(upload.asked, upload.request)

    def _hold(self, size: int) -> None:
        """So many bytes of a body are ours to keep now."""
        self.factory.held += size - self._holding
        self._holding = size

    def _ask(self, asked: Asked, request: HttpRequest) -> None:
        self._turn = request
        work = self.factory.front.answer(request)
        if isinstance(work, Answer):
            self._answer(asked, work)
            return
        self._work = work
        work.addCallback(self._answered, asked)
        work.addErrback(self._unanswered)

    # -- answering -------------------------------------------------------------

    def _answered(self, answer: Answer, asked: Asked) -> None:
        self._work = None
        self._answer(asked, answer)
        self.advance()

    def _unanswered(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            log.failure("an answer could not be written", failure)
        if not self._closing:
            self.cut()

    def _answer(self, asked: Asked, answer: Answer) -> None:
        body = answer.body
        if self._closing:
            if isinstance(body, Stream):
                body.over()
            return
        close = not asked.keep_alive or (self._half_closed and not self._waiting)
        if isinstance(body, Stream):
            self._begin(body, said(answer, b"", self.factory.date(), close=close), close)
            return
        try:
            data = payload(answer)
        except TypeError as why:
            log.failure("an answer is no JSON")
            answer = self.factory.front.page(500, why)
            data = payload(answer)
        head = said(answer, data, self.factory.date(), close=close)
        if asked.method == "HEAD":
            data = b""
        if len(data) > PROMPT:
            self._rest, self._rest_at, self._close_after = data, 0, close
            send(self.transport, head)
            self._send_rest()
            return
        send(self.transport, head + data, PROMPT)
        self._answer_is_out(close)

    def _send_rest(self) -> None:
        """Pieces of a large answer for as long as the client takes them: a copy of each is enough.

        All of it at once would be copied whole for every connection, and twice for a moment.
        """
        while not self._held and not self._closing and self._rest_at < len(self._rest):
            piece = self._rest[self._rest_at : self._rest_at + PROMPT]
            self._rest_at += len(piece)
            send(self.transport, piece, PROMPT)
        if self._rest and self._rest_at >= len(self._rest):
            self._rest = b""
            self._answer_is_out(self._close_after)

    def _answer_is_out(self, close: bool) -> None:
        self._turn = None
        if self._holding:
            self._hold(0)
        self.since = self.factory.clock.seconds()
        if close:
            self._end()

    def _begin(self, stream: Stream, head: bytes, close: bool) -> None:
        self._stream, self._close_after = stream, close
        self._forget_timer()
        self.transport.unregisterProducer()
        send(self.transport, head)
        stream.begin(self)

    def finish(self) -> None:
        """The stream has written everything."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        stream.over()
        if not self._closing:
            self.transport.registerProducer(self, True)
            self._answer_is_out(self._close_after)
            self.advance()

    def _refuse(self, answer: Answer) -> None:
        """Answer now, then read on without keeping, so that the client sees the answer."""
        body = payload(answer)
        upload, self._upload = self._upload, None
        self._hold(0)
        if upload is not None and upload.asked.method == "HEAD":
            body = b""
        send(self.transport, said(answer, body, self.factory.date(), close=True) + body)
        self._closing, self._waiting = True, b""
        self.transport.unregisterProducer()
        if self._half_closed:
            self.transport.loseConnection()
        else:
            self._timer = self.factory.clock.callLater(LINGER_S, self.cut)
            self.transport.loseWriteConnection()

    # -- back-pressure of a client that reads too slowly -----------------------

    def pauseProducing(self) -> None:
        """The client does not read: no more answers for now."""
        self._held = True
        self.since = self.factory.clock.seconds()
        self.factory.unread.begin(self, len(self._rest))

    def resumeProducing(self) -> None:
        self._held = False
        self.factory.unread.end(self)
        if not self._closing:
            self._send_rest()
        self.factory.clock.callLater(0, self.advance)

    def stopProducing(self) -> None:
        """The connection is gone; ``connectionLost`` says so."""

    # -- ends ------------------------------------------------------------------

    def _end(self) -> None:
        """Close after what is written."""
        if self._closing:
            return
        self._closing, self._waiting = True, b""
        self.transport.unregisterProducer()
        self.transport.loseConnection()

    def cut(self) -> None:
        """End it now."""
        self._closing = True
        self.transport.abortConnection()

    def close_idle(self) -> None:
        """The service stops: end, unless an answer is due."""
        if not self.busy:
            self._end()

    def readConnectionLost(self) -> None:
        """The client sends no more; an answer that is nearly there it still gets."""
        self._half_closed = True
        if self._closing:
            self.transport.loseConnection()
        elif self._turn is None:
            self.advance()
        elif self._stream is None:
            self._timer = self.factory.clock.callLater(FAREWELL_S, self.cut)

    def writeConnectionLost(self) -> None:
        """Our own doing."""

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        """Stop working for a client that has gone."""
        self._closing = True
        self._hold(0)
        self.factory.unread.end(self)
        self.factory.channels.discard(self)
        self._forget_timer()
        self._rest = b""
        work, self._work = self._work, None
        stream, self._stream = self._stream, None
        self._turn = self._upload = None
        if work is not None:
            work.cancel()
        if stream is not None:
            stream.over()

    def _forget_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def sweep(self, now: float) -> None:
        """Is anything due?"""
        waited = now - self.since
        if self._turn is not None and not self._held:
            return
        at_rest = self._turn is None and self._upload is None and not self._waiting
        if at_rest and not self._held and not self._closing:
            if waited >= IDLE_S:
                self._end()
        elif waited >= RECEIVE_S:
            self.cut()
