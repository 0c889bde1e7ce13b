"""The server side of an HTTP connection, which answers requests in order.

A request is read whole. A small answer is written in one piece, a large answer in several pieces.
"""

from itertools import chain
from typing import Any

from attrs import define, field
from twisted.internet import protocol
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.http.bodies import Body, body_of
from svcserver.http.connection import ANSWERING, CONTINUE, IDLE, Connection, Deadlines
from svcserver.http.crosssite import is_loopback
from svcserver.http.heads import Fault
from svcserver.http.prompt import send
from svcserver.kernel.counters import Counted, Counters
from svcserver.web.request import HttpRequest, ParsedHead
from svcserver.web.response import Stream, encode_body, response_head
from svcserver.web.routes import Answer

log = Logger()

IDLE_S = 60  # how long a keep-alive connection may be idle
RECEIVE_S = 120  # from the first to the last byte of a request; also the limit for a stalled client
YOUNG_S = 0.5  # how long the first request of a new connection may be on its way
HALF_CLOSED_S = 2  # how long an answer may take once the client has half-closed
MAX_REFUSED = 64 * 1024 * 1024  # bytes of a refused request to discard; no body is larger
MAX_HELD = 256 * 1024 * 1024  # bytes of request bodies in memory, for all connections
MAX_UNREAD = 64 * 1024 * 1024  # bytes of unread answers, for all connections
FAIR = 256 * 1024  # bytes; larger bodies are refused first, and larger answers are cut first
PROMPT = 128 * 1024  # bytes of an answer written to the socket in one step


@define
class Upload:
    """A request body that is being received; ``limit`` and ``size`` are in bytes."""

    head: ParsedHead
    request: HttpRequest
    body: Body
    limit: int
    size: int = field(default=0, init=False)
    _parts: list[bytes] = field(factory=list, init=False)

    def feed(self, data: bytes) -> tuple[bool, bytes]:
        """Add bytes; return whether the body is within ``limit``, and the bytes after the body.

        Raises Fault for a malformed body.
        """
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


class WebChannel(Connection):
    """The server side of one client's connection."""

    limits = Deadlines(headers_s=RECEIVE_S, keep_alive_s=IDLE_S, idle_s=RECEIVE_S)
    max_discarded = MAX_REFUSED
    node = ""  # the machine whose certificate the client has proved

    def __init__(self, factory: Any, peer: str) -> None:
        super().__init__(factory, peer)
        self._upload: Upload | None = None
        self._request: HttpRequest | None = None  # being answered
        self._work: Deferred[Any] | None = None
        self._stream: Stream | None = None
        self._chunked = False  # the stream has no length
        self._holding = 0  # bytes of the request's body that ``factory.held`` counts
        self._rest = b""  # a large answer, written piece by piece
        self._rest_at = 0
        self._used = False  # True once the connection has carried a request
        self._close_after = False  # whether the connection ends with the answer being written

    @property
    def unused(self) -> bool:
        """True if the connection has received nothing although it is at least ``YOUNG_S`` old."""
        old = self.factory.clock.seconds() - self.since >= YOUNG_S
        return not (self._used or self.waiting) and old

    @property
    def busy(self) -> bool:
        """True if a stopping service should wait until this connection's answer is sent."""
        return self._request is not None and not self._request.hopeless

    # -- reading ---------------------------------------------------------------

    def connectionMade(self) -> None:
        super().connectionMade()
        self.next_request()

    def start_request(self, raw: bytes) -> None:
        """Answer a request whose body is empty or complete; otherwise wait for the body."""
        self._used = True
        head = self.factory.parsed_head(raw)
        request = HttpRequest(
            head.method,
            head.path,
            head.query,
            head.fields,
            self.peer,
            proxy_headers=self.factory.proxy_headers,
            node=self.node,
        )
        if head.length == 0:
            if head.upgrade != b"websocket" or not self._switch_protocol(request, raw):
                self._start_request(head, request)
            return
        front = self.factory.front
        length = head.length or 0
        if 0 < length <= min(len(self.waiting), FAIR, front.max_json):
            # the body is complete: an early check would save nothing
            request.body, self.waiting = self.waiting[:length], self.waiting[length:]
            self._start_request(head, request)
            if self._request is request:  # a request that is answered immediately is not counted
                self._hold(length)
            return
        refusal = front.early(request, head.length)
        if refusal is not None:
            self._refuse(refusal, to_head=head.method == "HEAD")
            return
        if head.expects:
            send(self.transport, CONTINUE)
        self.until(self.began + RECEIVE_S, self.cut)
        self._upload = Upload(head, request, body_of(head.length), front.max_json)
        self.receive()

    def _switch_protocol(self, request: HttpRequest, raw: bytes) -> bool:
        """Try to pass the connection to a WebSocket protocol; return True on success.

        Only programs on this machine may use a WebSocket. A request that came through a proxy, or
        from a page of another site, is not accepted.
        """
        make, transport = self.factory.websockets, self.transport
        if make is None or request.method != "GET" or self.half_closed:
            return False
        if not is_loopback(self.peer) or request.proxied or request.foreign():
            return False
        websocket = make(transport.getPeer())
        if websocket is None:
            return False
        rest, self.waiting = self.waiting, b""
        for reason in tuple(self._holds):
            self.release(reason)
        transport.unregisterProducer()
        self.connectionLost()
        transport.protocol = websocket
        websocket.makeConnection(transport)
        websocket.dataReceived(raw + rest)
        return True

    def take_body(self) -> None:
        upload = self._upload
        if upload is None:
            return
        good, self.waiting = upload.feed(self.waiting)
        self._hold(upload.size)
        if not good:
            self.factory.counters.add(Counted.REFUSALS, "413")
            self._refuse(self.factory.front.page(413, None))
        elif upload.size > FAIR and self.factory.held > MAX_HELD:
            self._refuse(Answer(503, headers={"Retry-After": "1"}))
        elif upload.body.done:
            self._upload, self.stage = None, ANSWERING
            self._start_request(upload.head, upload.request)

    def on_fault(self, fault: Fault) -> None:
        self.factory.unreadable(self.peer, fault)
        self._refuse(Answer(fault.status))

    def _hold(self, size: int) -> None:
        """Set this connection's part of ``factory.held`` to ``size`` bytes."""
        self.factory.held += size - self._holding
        self._holding = size

    def _start_request(self, head: ParsedHead, request: HttpRequest) -> None:
        self._request = request
        work = self.factory.front.answer(request)
        if isinstance(work, Answer):
            self._answer(head, work)
            return
        self._work = work
        self.await_answer()
        work.addBoth(self._answered, head)

    # -- answering -------------------------------------------------------------

    def _answered(self, answer: Answer | Failure, head: ParsedHead) -> None:
        if isinstance(answer, Failure):
            self._unanswered(answer)
            return
        self._work = None
        try:
            self._answer(head, answer)
        except Exception:
            self._unanswered(Failure())

    def _unanswered(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None:
            log.failure("an answer could not be written", failure)
        if not self.closing:
            self.cut()

    def _answer(self, request: ParsedHead, answer: Answer) -> None:
        body = answer.body
        if self.closing:
            if isinstance(body, Stream):
                body.over()
            return
        close = not request.keep_alive or (self.half_closed and not self.waiting)
        close = close or self.factory.stopping
        if isinstance(body, Stream):
            self._chunked = "Transfer-Encoding" in answer.headers
            self._begin_stream(
                body, response_head(answer, b"", self.factory.date(), close=close), close
            )
            return
        try:
            data = encode_body(answer)
        except TypeError as error:
            log.failure("an answer cannot be written as JSON")
            answer = self.factory.front.page(500, error)
            data = encode_body(answer)
        head = response_head(answer, data, self.factory.date(), close=close)
        if request.method == "HEAD":
            data = b""
        if len(data) > PROMPT:
            self._rest, self._rest_at, self._close_after = data, 0, close
            send(self.transport, head)
            self._send_rest()
            return
        send(self.transport, head + data, PROMPT)
        self._answer_is_out(close)

    def _send_rest(self) -> None:
        """Write pieces of a large answer for as long as the client reads them."""
        while not self.unread and not self.closing and self._rest_at < len(self._rest):
            piece = self._rest[self._rest_at : self._rest_at + PROMPT]
            self._rest_at += len(piece)
            send(self.transport, piece, PROMPT)
        if self._rest and self._rest_at >= len(self._rest):
            self._rest = b""
            self._answer_is_out(self._close_after)

    def _answer_is_out(self, close: bool) -> None:
        self._request = None
        if self._holding:
            self._hold(0)
        if close:
            self.end()
        else:
            self.next_request()

    def _begin_stream(self, stream: Stream, head: bytes, close: bool) -> None:
        self._stream, self._close_after = stream, close
        self.await_answer()
        self.transport.unregisterProducer()
        send(self.transport, head)
        stream.begin(self)

    def write(self, data: bytes) -> None:
        """Send a part of the stream's body, as a chunk if the body has no known length."""
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def finish(self) -> None:
        """End the answer, because the stream has written everything."""
        stream, self._stream = self._stream, None
        if stream is None:
            return
        if self._chunked and not self.closing:
            self.transport.write(b"0\r\n\r\n")
        stream.over()
        if not self.closing:
            self.transport.registerProducer(self, True)
            self._answer_is_out(self._close_after)

    def _refuse(self, answer: Answer, *, to_head: bool = False) -> None:
        """Send an error, then close the connection.

        Further input is read and discarded, because unread input could make the client lose the
        error.
        """
        body = encode_body(answer)
        upload, self._upload = self._upload, None
        self._hold(0)
        if to_head or (upload is not None and upload.head.method == "HEAD"):
            body = b""
        send(self.transport, response_head(answer, body, self.factory.date(), close=True) + body)
        self.end(linger=True)

    # -- back-pressure of a client that reads too slowly -----------------------

    def pauseProducing(self) -> None:
        """Stop writing for now, because the client reads too slowly."""
        super().pauseProducing()
        self.within(RECEIVE_S, self.cut)
        self.factory.unread.begin(self, len(self._rest) + PROMPT)  # a piece has been written

    def resumeProducing(self) -> None:
        """Resume writing: the client has read the buffered bytes."""
        self.unread = False
        self.factory.unread.end(self)
        if self.closing:
            return
        if self._request is not None:
            self.await_answer()
            self._send_rest()
        elif self.stage is IDLE and not self.waiting:
            self.next_request()
        self.advance()

    # -- ends ------------------------------------------------------------------

    def readConnectionLost(self) -> None:
        """Notify the stream that the client sends no more; without a stream, set a deadline."""
        super().readConnectionLost()
        if self._stream is not None:
            self._stream.half_closed()
        elif self._request is not None:
            self.await_answer()

    def await_answer(self) -> None:
        """Wait for the answer; set a deadline only if the client has closed its sending side."""
        super().await_answer()
        if self.half_closed and self._stream is None:
            self.within(HALF_CLOSED_S, self.cut)

    def connectionLost(self, reason: Failure = protocol.connectionDone) -> None:
        """Cancel unfinished work for the client, and release the client's memory."""
        super().connectionLost(reason)
        self._hold(0)
        self.factory.unread.end(self)
        self._rest = b""
        work, self._work = self._work, None
        stream, self._stream = self._stream, None
        self._request = self._upload = None
        if work is not None:
            work.cancel()
        if stream is not None:
            stream.over()


@define
class UnreadAnswers:
    """The connections with unread answers, and the limit (``most``) of all unread bytes.

    Above the limit, connections with more than ``FAIR`` unread bytes are cut first, then others. In
    each group, the connection whose client has read nothing for the longest time is cut first. The
    connection with the newest answer is not cut.
    """

    most: int = MAX_UNREAD
    counters: Counters = field(factory=Counters)
    total: int = field(default=0, init=False)
    _large: dict[WebChannel, int] = field(factory=dict, init=False, repr=False)
    _small: dict[WebChannel, int] = field(factory=dict, init=False, repr=False)

    def begin(self, reader: WebChannel, size: int) -> None:
        """Count the unread bytes of ``reader``; if the total exceeds ``most``, cut connections."""
        self.end(reader)
        (self._large if size > FAIR else self._small)[reader] = size
        self.total += size
        while self.total > self.most:
            longest = self._longest(reader)
            if longest is None:
                return
            self.end(longest)
            self.counters.add(Counted.EVICTED_CONNECTIONS, "unread_answer")
            longest.cut()

    def _longest(self, newest: WebChannel) -> WebChannel | None:
        others = (reader for reader in chain(self._large, self._small) if reader is not newest)
        return next(others, None)

    def end(self, reader: WebChannel) -> None:
        """Stop counting the unread bytes of ``reader``."""
        self.total -= self._large.pop(reader, 0) + self._small.pop(reader, 0)
