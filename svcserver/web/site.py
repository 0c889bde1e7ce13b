"""The channel factory, and the state that all channels of a service share."""

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocol, IReactorTime
from twisted.logger import Logger

from svcserver.http.connection import Connections
from svcserver.http.heads import Fault, HeadCache
from svcserver.http.peers import peer_of
from svcserver.kernel import system
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.throttle import Throttle
from svcserver.web.channel import UnreadAnswers, WebChannel
from svcserver.web.request import PROXY_HEADERS, HttpRequest, ParsedHead
from svcserver.web.response import date_line
from svcserver.web.routes import Answer

log = Logger()


class HttpHandler(Protocol):
    """The object that answers a channel's requests: a ``FrontDoor`` or a simpler handler."""

    @property
    def max_json(self) -> int:
        """The maximum size of a body, in bytes."""

    def early(self, request: HttpRequest, length: int | None) -> Answer | None:
        """Return the refusal that can be given before the body is read, or None."""

    def answer(self, request: HttpRequest) -> Answer | Deferred[Answer]:
        """Return the answer, or a Deferred that fails only with CancelledError."""

    def page(self, status: int, why: BaseException | None) -> Answer:
        """Return the answer to an error that the channel itself detects."""


class HttpFactory(Connections[WebChannel]):
    """A factory of connections; ``front`` answers the requests on them.

    ``proxy_headers`` are further headers that mark a request as forwarded. ``websockets`` makes the
    protocol of a WebSocket connection. Only programs on this machine can open such a connection.
    Without ``websockets``, or if it returns None, an upgrade request is answered like any other.
    """

    websockets: Callable[[Any], IProtocol | None] | None = None

    def __init__(
        self,
        front: HttpHandler,
        clock: IReactorTime,
        counters: Counters | None = None,
        *,
        proxy_headers: tuple[bytes, ...] = (),
    ) -> None:
        super().__init__(clock)
        self.front = front
        self.proxy_headers = (*proxy_headers, *PROXY_HEADERS)
        self._heads: HeadCache[ParsedHead] = HeadCache()
        self.held = 0  # bytes of bodies in memory
        self.counters = counters or Counters()
        self.unread = UnreadAnswers(counters=self.counters)
        self._complained = Throttle()
        self._date = (-1, b"")

    def buildProtocol(self, addr: Any) -> WebChannel:
        return WebChannel(self, peer_of(addr))

    def parsed_head(self, raw: bytes) -> ParsedHead:
        """Return the parsed head of ``raw``, from the cache if possible; raises Fault."""
        head = self._heads.get(raw)
        if head is None:
            head = ParsedHead(raw)
            self._heads.keep(raw, head)
        return head

    def date(self) -> bytes:
        """Return the Date header line, which is updated once a second."""
        now = int(system.epoch())
        if self._date[0] != now:
            self._date = (now, date_line(now))
        return self._date[1]

    def unreadable(self, peer: str, fault: Fault) -> None:
        """Count a malformed request; log at most one a minute for each peer."""
        self.counters.add(Counted.REFUSALS, "unreadable")
        if self._complained.due(peer, self.clock.seconds()):
            log.info(
                "malformed request from {peer}: {kind}; answered {status}",
                peer=peer,
                kind=str(fault),
                status=fault.status,
            )

    def close_unused(self) -> None:
        """Close connections that have carried no request and are not new."""
        for channel in list(self.channels):
            if channel.unused:
                channel.end()

    def close_idle(self, *, keep_used: bool) -> int:
        """Close each connection that has no running request; return the number of those left open.

        With ``keep_used``, a connection that has carried a request is kept until its next answer.
        """
        for channel in list(self.channels):
            if not (channel.busy or (keep_used and not channel.unused)):
                channel.end()
        return sum(channel.busy or (keep_used and not channel.closing) for channel in self.channels)
