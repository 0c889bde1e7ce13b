"""twisted.web under the front door: bytes in, an ``HttpRequest`` up, an ``Answer`` down.

Stock ``Site`` parses every POST form, formats an access line per request, has no limit
on bodies and lets a peer dribble one byte a minute for ever; this factory does not.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, HTTPFactory, Request
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from svcserver.kernel import json
from svcserver.web.front import FrontDoor
from svcserver.web.request import HttpRequest
from svcserver.web.routes import Answer

log = Logger()

IDLE_S = 60  # a keep-alive connection without a byte
RECEIVE_S = 120  # from the last answer (or the connect) to the last byte of a request
SWEEP_S = 5
LINGER_S = 2  # how long a refused upload may go on before the connection is cut


class FrontRequest(Request):
    """One request of the channel; hands itself to the front door when it is whole."""

    _refused = False
    _received = 0
    front: FrontDoor

    def __init__(self, channel: Any, queued: Any = None) -> None:
        super().__init__(channel, queued, parsePOSTFormSubmission=False)

    def gotLength(self, length: int | None) -> None:
        """The head is complete: give the refusals that need no body."""
        refusal = None
        if length != 0:
            channel: Any = self.channel
            target, _, query = channel._path.partition(b"?")
            method = channel._command.decode("latin-1")
            request = HttpRequest(method, target, query, self.requestHeaders, _peer(self))
            refusal = channel.factory.front.early(request, length)
        # a refused body is never kept, so it needs no temporary file
        super().gotLength(0 if refusal is not None else length)
        if refusal is not None:
            self._refuse(refusal)

    def handleContentChunk(self, data: bytes) -> None:
        """Keep the chunk, unless the body is refused or grows beyond the limit."""
        self._received += len(data)
        if self._refused:
            return
        channel: Any = self.channel
        if self._received > channel.factory.front.max_json:
            self._refuse(channel.factory.front.page(413, None))
            return
        super().handleContentChunk(data)

    def process(self) -> None:
        """The request is whole."""
        channel: Any = self.channel
        if self._refused:
            channel.loseConnection()
            return
        content: Any = self.content
        content.seek(0)
        request = HttpRequest(
            self.method.decode("latin-1"),
            self.path,
            self.uri.partition(b"?")[2],
            self.requestHeaders,
            _peer(self),
            content.read(),
        )
        deliver(self, channel.factory.front.answer(request))

    def _refuse(self, answer: Answer) -> None:
        """Answer now, then read on without keeping, so that the client sees the answer."""
        self._refused = True
        channel: Any = self.channel
        body = answer.body if isinstance(answer.body, bytes) else b""
        head = [f"HTTP/1.1 {answer.status} Refused", "Connection: close"]
        head += [f"Content-Type: {answer.content_type}"] if body else []
        head += [f"{name}: {value}" for name, value in answer.headers.items()]
        head += [f"Content-Length: {len(body)}", "", ""]
        channel.transport.write("\r\n".join(head).encode("latin-1") + body)
        channel.give_up_in(LINGER_S)


class FrontChannel(HTTPChannel):
    """A connection that knows since when it owes us a whole request."""

    factory: Any
    since = 0.0
    _giving_up: Any = None

    def connectionMade(self) -> None:
        """Start the clock of the first request."""
        super().connectionMade()
        # asked for at every request; the stock channel makes a system call of each
        self._peer, self._host = super().getPeer(), super().getHost()
        self.since = self.factory.clock.seconds()
        self.factory.channels.add(self)

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Forget the connection and its timer."""
        self.factory.channels.discard(self)
        if self._giving_up is not None and self._giving_up.active():
            self._giving_up.cancel()
        super().connectionLost(reason)

    def getPeer(self) -> Any:
        """The other end."""
        return self._peer

    def getHost(self) -> Any:
        """Our end."""
        return self._host

    def requestDone(self, request: Any) -> None:
        """An answer is out; the next request may take its time anew."""
        self.since = self.factory.clock.seconds()
        super().requestDone(request)

    def give_up_in(self, seconds: float) -> None:
        """Cut the connection soon, whether or not the peer has finished."""
        self._giving_up = self.factory.clock.callLater(seconds, self._cut)

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return bool(self._handlingRequest)

    def _cut(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()


class FrontFactory(HTTPFactory):
    """Listens for a front door."""

    protocol = FrontChannel  # type: ignore[assignment]
    noisy = False

    def __init__(self, front: FrontDoor, clock: IReactorTime) -> None:
        super().__init__(timeout=IDLE_S, reactor=clock)
        self.front = front
        self.clock = clock
        self.channels: set[FrontChannel] = set()
        self._sweep = LoopingCall(self._cut_slow)
        self._sweep.clock = clock

    def buildProtocol(self, addr: Any) -> Any:
        """A channel that makes our requests."""
        channel: Any = super().buildProtocol(addr)
        channel.requestFactory = FrontRequest
        return channel

    def startFactory(self) -> None:
        """Begin to sweep slow connections; no access log of Twisted's own."""
        self._sweep.start(SWEEP_S, now=False).addErrback(
            lambda why: log.failure("the sweep of slow connections ended", why)
        )

    def stopFactory(self) -> None:
        """End the sweep."""
        if self._sweep.running:
            self._sweep.stop()

    def log(self, request: Any) -> None:
        """The front door writes the request line."""

    def close_idle(self) -> int:
        """Close connections that answer nothing now; how many still do."""
        for channel in list(self.channels):
            if not channel.busy and channel.transport is not None:
                channel.transport.loseConnection()
        return sum(channel.busy for channel in self.channels)

    def _cut_slow(self) -> None:
        oldest = self.clock.seconds() - RECEIVE_S
        for channel in list(self.channels):
            if not channel.busy and channel.since < oldest:
                channel._cut()


class FrontResource(Resource):
    """The front door as a twisted.web resource, for in-memory tests (StubTreq)."""

    isLeaf = True

    def __init__(self, front: FrontDoor) -> None:
        super().__init__()
        self._front = front

    def render(self, request: Any) -> int:
        """Answer through the front door."""
        asked = HttpRequest(
            request.method.decode("latin-1"),
            request.path,
            request.uri.partition(b"?")[2],
            request.requestHeaders,
            _peer(request),
            request.content.read(),
        )
        deliver(request, self._front.answer(asked))
        return NOT_DONE_YET


def deliver(request: Any, answer: Deferred[Answer]) -> None:
    """Write the answer when it is there; cancel the work when the client goes first."""
    if answer.called and not isinstance(getattr(answer, "result", None), Deferred | Failure):
        answer.addCallback(_write, request)
        return
    gone = request.notifyFinish()
    gone.addErrback(lambda _: answer.cancel())
    answer.addCallback(_write, request)
    answer.addErrback(lambda why: why.trap(CancelledError))
    answer.addErrback(lambda why: log.failure("an answer could not be written", why))


def _write(answer: Answer, request: Any) -> None:
    if request._disconnected:
        return
    body = answer.body
    headers = request.responseHeaders
    request.setResponseCode(answer.status)
    if body is None:
        body = b""
    elif not isinstance(body, bytes):
        body = json.dump(body)
    if body:
        headers.setRawHeaders(b"Content-Type", [answer.content_type.encode()])
    if answer.status != 204 and answer.status != 304:
        headers.setRawHeaders(b"Content-Length", [b"%d" % len(body)])
    for name, value in answer.headers.items():
        headers.setRawHeaders(name.encode(), [value.encode("latin-1")])
    if body:
        request.write(body)
    request.finish()


def _peer(request: Any) -> str:
    host: str = getattr(request.getClientAddress(), "host", "") or ""
    return host.removeprefix("::ffff:") if "." in host else host
