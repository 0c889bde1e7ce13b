"""An HTTP client for feature tests, which passes real bytes to a server without a socket."""

import gzip
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import orjson
from attrs import define, field, frozen
from httptools import HttpResponseParser
from hyperlink import URL
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.testing import MemoryReactorClock
from twisted.python.failure import Failure
from twisted.test.iosim import FakeTransport, connect
from twisted.web.server import Site

from svcserver.kernel.headers import GATEWAY
from svcserver.web.front import FrontDoor
from svcserver.web.site import HttpFactory

OURS, THEIRS = IPv4Address("TCP", "127.0.0.1", 31337), IPv4Address("TCP", "127.0.0.1", 80)
PLAIN = re.compile(r"[A-Za-z0-9/?&=._~-]*\Z")  # targets in which a URL changes nothing


@frozen
class Page:
    """An HTTP response: status, headers and body."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        """Return the body, parsed as JSON."""
        return orjson.loads(self.body)


@define
class Browser:
    """A client: ``browse("PUT", "/note", json={...}, token="...")`` returns a ``Page``.

    ``token`` becomes the Authorization header, ``key`` the account key header and ``game_server``
    the game-server key header; ``data`` is sent unchanged.
    """

    test: Any  # the SynchronousTestCase
    front: FrontDoor
    clock: Any = None  # a clock for the connections, if their time must pass
    on_klein: bool = False  # a standard twisted.web site serves the routes instead of our channel
    _open: list[Any] = field(factory=list, init=False)
    _resource: Any = field(default=None, init=False)

    def __call__(self, method: str, path: str, **options: Any) -> Page:
        """Send a request as ``ask`` does, and return the response, which must arrive at once."""
        return self.test.successResultOf(self.ask(method, path, **options))

    def ask(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        key: str | None = None,
        game_server: str | None = None,
        headers: Mapping[Any, Any] | None = None,
        **sent: Any,
    ) -> Deferred[Page]:
        """Send a request whose response may arrive only after the test advances the clock."""
        head: dict[Any, Any] = {
            "Host": "127.0.0.1",
            "Connection": "close",
            "Accept-Encoding": "gzip",
        }
        head.update(headers or {})
        if token is not None:
            head["Authorization"] = f"Bearer {token}"
        if key is not None:
            head["x-svc-user-api-key"] = key
        if game_server is not None:
            head["x-svc-gameserver-apikey"] = game_server
        asking = _Asking(_request(method, path, head, **sent), method == "HEAD")
        clock = self.clock or MemoryReactorClock()
        factory: Any = HttpFactory(self.front, clock, proxy_headers=(GATEWAY,))
        if self.on_klein:
            if self._resource is None:  # creating a Klein app of all routes takes long
                self._resource = self.front.resource(proxy_headers=(GATEWAY,))
            factory = Site(self._resource, reactor=clock)
        server = factory.buildProtocol(OURS)
        ends = (
            FakeTransport(server, isServer=True, hostAddress=THEIRS, peerAddress=OURS),
            FakeTransport(asking, isServer=False, hostAddress=OURS, peerAddress=THEIRS),
        )
        self._open.append(connect(server, ends[0], asking, ends[1]))
        self.flush()
        return asking.answered

    def flush(self) -> None:
        """Deliver written bytes, such as a response that an advance of the clock has triggered."""
        for _ in range(3):
            for pump in self._open:
                pump.flush()
        self._open = [entry for entry in self._open if not entry.serverIO.disconnected]


def _request(
    method: str, path: str, head: Mapping[Any, Any], data: Any = None, **more: Any
) -> bytes:
    """Return the request's bytes; the body is ``data`` (raw or form-encoded) or ``json``."""
    if not PLAIN.match(path):
        url = URL.from_text("http://127.0.0.1" + path).to_uri().to_text()
        path = url.removeprefix("http://127.0.0.1")
    body = data.encode() if isinstance(data, str) else data
    lines = [f"{method} {path or '/'} HTTP/1.1"]
    for name, value in head.items():
        values = value if isinstance(value, list) else [value]
        lines += [f"{_text(name)}: {_text(entry)}" for entry in values]
    if isinstance(data, Mapping):
        body = urlencode(data, doseq=True).encode()
        lines.append("Content-Type: application/x-www-form-urlencoded")
    if "json" in more:
        body = json.dumps(more.pop("json"), separators=(",", ":")).encode()
        lines.append("Content-Type: application/json; charset=UTF-8")
    if more:
        raise TypeError(f"a browser cannot send {more}")
    if body is not None or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body or b'')}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def _text(word: str | bytes) -> str:
    return word.decode() if isinstance(word, bytes) else word


class _Asking(Protocol):
    """The client's end of a connection that waits for one response."""

    def __init__(self, request: bytes, bare: bool) -> None:
        self._request, self._bare = request, bare  # whether the reply has no body
        self.answered: Deferred[Page] = Deferred(self._leave)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._parser: Any = HttpResponseParser(self)

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(self._request)

    def dataReceived(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the first value of a repeated header."""
        self._headers.setdefault(name.decode().lower(), value.decode())

    def on_headers_complete(self) -> None:
        if self._bare:
            self.on_message_complete()

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self._body)
        if body and self._headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if not self.answered.called:
            self.answered.callback(Page(self._parser.get_status_code(), body, self._headers))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if not self.answered.called:
            self.answered.errback(reason)

    def _leave(self, answered: Deferred[Page]) -> None:
        """Stop waiting for the reply."""
        transport: Any = self.transport
        transport.abortConnection()
