"""Requests to a host over connections with a pinned certificate; files arrive in chunks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from attrs import define, field, frozen
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from svcserver.edge.upstream import Pool
from svcserver.edge.verdicts import Unreachable
from svcserver.http.bodies import Body, body_of
from svcserver.http.heads import MAX_RESPONSE_HEAD, Fault, ResponseHead, find_end, read_response
from svcserver.kernel import json
from svcserver.kernel.digits import whole_in
from svcserver.kernel.secrets import Secret

KEY_HEADER = "x-svc-user-api-key"
SILENCE_S = 30.0  # the timeout without any data
MAX_ANSWER = 1024 * 1024  # bytes of a whole reply


class NoReply(Exception):
    """The error when no complete reply arrived; ``code`` is the relay's error code, if any."""

    def __init__(self, code: str = "upstream_unreachable", *, after_sending: bool = False) -> None:
        super().__init__(code)
        self.code = code
        self.after_sending = after_sending  # the host may have carried out the request


@frozen
class HostReply:
    """A complete reply of the host."""

    status: int
    headers: Mapping[str, str]  # by lower-case name
    body: bytes = field(repr=False)

    @property
    def json(self) -> Any:
        """The body as parsed JSON, or None if it is not JSON."""
        try:
            return json.parse(self.body)
        except json.BadJson:
            return None

    @property
    def fields(self) -> dict[str, Any]:
        """The members of the JSON object in the body; empty if the body is no JSON object."""
        data = self.json
        return data if isinstance(data, dict) else {}

    @property
    def error(self) -> str:
        """The error code in the reply; empty if the reply has no error code."""
        code = self.fields.get("error")
        return code if isinstance(code, str) else ""

    @property
    def retry_after_s(self) -> float:
        """The number of seconds that the host asks the client to wait."""
        return float(whole_in(self.headers.get("retry-after", ""), 5) or 0)


class Sink(Protocol):
    """A receiver of a reply: first its head, then its body in chunks."""

    def begin(self, answer: HostRequest, status: int, headers: Mapping[str, str]) -> None:
        """Receive the reply's status and headers.

        To pause and resume the reply, call ``answer.hold()`` and ``answer.release()``.
        """

    def piece(self, data: bytes) -> None:
        """Receive a chunk of the body."""


@define(eq=False, slots=False)
class HostRequest:
    """A request in progress, with its connection."""

    pool: Pool
    clock: Any
    request: bytes = field(repr=False)
    method: str
    sink: Sink
    done: Deferred[None] = field(factory=Deferred, init=False)
    _connection: Any = field(default=None, init=False)
    _raw: bytes = field(default=b"", init=False, repr=False)
    _head: ResponseHead | None = field(default=None, init=False)
    _body: Body | None = field(default=None, init=False)
    _timer: Any = field(default=None, init=False)
    _held: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)
    _fresh: bool = field(default=False, init=False)

    def start(self) -> None:
        got = self.pool.take(fresh=self._fresh)
        if isinstance(got, Deferred):
            got.addCallbacks(self._connected, self._unreachable)
        else:
            self._connected(got)

    def _connected(self, connection: Any) -> None:
        if self._over:
            self.pool.give_back(connection)
            return
        self._connection, connection.user = connection, self
        self._wait()
        connection.transport.write(self.request)

    def _unreachable(self, failure: Failure) -> None:
        error = failure.value
        self._end(NoReply(error.code if isinstance(error, Unreachable) else "upstream_unreachable"))

    def upstream_received(self, data: bytes) -> None:
        """Parse received bytes: first the head, then the body, which goes to the sink."""
        self._wait()
        try:
            if self._body is None:
                self._raw += data
                data = self._take_head()
            if self._body is not None and not self._over:
                self._pass(data)
        except Fault:
            self._end(NoReply("answer"))

    def _take_head(self) -> bytes:
        while True:
            end = find_end(self._raw, MAX_RESPONSE_HEAD)
            if end < 0:
                return b""
            raw, self._raw = self._raw[:end], self._raw[end:]
            head = read_response(raw, self.method.encode())
            if head.status >= 200:
                break
        rest, self._raw = self._raw, b""
        self._head, self._body = head, body_of(head.length)
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for _, name, value in head.headers
        }
        self.sink.begin(self, head.status, headers)
        return rest

    def _pass(self, data: bytes) -> None:
        body, head = self._body, self._head
        assert body is not None and head is not None  # noqa: S101 - set together
        part, rest = body.feed(data)
        if part:
            self.sink.piece(part)
        if body.done and not self._over:
            connection, self._connection = self._connection, None
            if head.keep_alive and not rest and not self._held:
                self.pool.give_back(connection)
            else:
                connection.abort()
            self._end(None)

    def upstream_lost(self) -> None:
        """Handle the end of the connection.

        If the reply states no length, its body is now complete. If a reused connection ends before
        the reply begins, a GET or HEAD is sent again. Otherwise the request fails.
        """
        connection, self._connection = self._connection, None
        endless = self._head is not None and self._head.length == -1
        if endless:
            self._end(None)
        elif connection.used and self._head is None and not self._raw and not self._fresh:
            if self.method in ("GET", "HEAD"):
                self._fresh = True  # retry: the host had closed an idle connection
                self.start()
            else:
                self._end(NoReply(after_sending=True))
        else:
            self._end(NoReply(after_sending=True))

    def hold(self) -> None:
        """Pause reading the reply."""
        if not self._held and self._connection is not None:
            self._held = True
            self._stop_timer()
            self._connection.transport.pauseProducing()

    def release(self) -> None:
        """Resume reading after ``hold``."""
        if self._held:
            self._held = False
            if self._connection is not None and self._connection.alive:
                self._wait()
                self._connection.transport.resumeProducing()

    def give_up(self, why: Exception | None = None) -> None:
        """Cancel the request; ``done`` then fails with ``why``."""
        self._end(why or NoReply("given_up"))

    def _wait(self) -> None:
        self._stop_timer()
        self._timer = self.clock.callLater(SILENCE_S, self.give_up, NoReply(after_sending=True))

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _end(self, error: Exception | None) -> None:
        if self._over:
            return
        self._over = True
        self._stop_timer()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        if error is None:
            self.done.callback(None)
        else:
            self.done.errback(Failure(error))


@define
class _WholeReply:
    """A sink that collects a reply of at most ``limit`` bytes."""

    limit: int
    status: int = 0
    headers: Mapping[str, str] = field(factory=dict)
    request: HostRequest | None = None
    _body: bytearray = field(factory=bytearray)

    def begin(self, answer: HostRequest, status: int, headers: Mapping[str, str]) -> None:
        self.request, self.status, self.headers = answer, status, headers

    def piece(self, data: bytes) -> None:
        self._body += data
        if len(self._body) > self.limit and self.request is not None:
            self.request.give_up(NoReply("answer"))

    def reply(self) -> HostReply:
        return HostReply(self.status, self.headers, bytes(self._body))


@define
class HostClient:
    """The client for requests to one host; each request has a timeout."""

    pool: Pool
    clock: Any
    authority: str  # host and port, for the Host field

    def open(
        self,
        method: str,
        path: str,
        sink: Sink,
        *,
        key: Secret | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> HostRequest:
        """Start a request whose reply is passed to ``sink``.

        The request's ``done`` fires when the reply ends.
        """
        lines = {"Host": self.authority, "User-Agent": "svc-launcher", **(headers or {})}
        if key is not None:
            lines[KEY_HEADER] = key.reveal()
        if body:
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        request = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("ascii") + body
        host_request = HostRequest(self.pool, self.clock, request, method, sink)
        host_request.start()
        return host_request

    async def fetch_reply(
        self,
        method: str,
        path: str,
        *,
        key: Secret | None = None,
        headers: Mapping[str, str] | None = None,
        json_body: Any = None,
        limit: int = MAX_ANSWER,
        patience_s: float = SILENCE_S,
    ) -> HostReply:
        """Send a request and return the complete reply, or raise NoReply."""
        body = json.dump(json_body) if json_body is not None else b""
        whole = _WholeReply(limit)
        request = self.open(method, path, whole, key=key, headers=headers, body=body)
        timeout = self.clock.callLater(patience_s, request.give_up, NoReply())
        try:
            await request.done
        except BaseException:
            request.give_up()
            raise
        finally:
            if timeout.active():
                timeout.cancel()
        return whole.reply()
