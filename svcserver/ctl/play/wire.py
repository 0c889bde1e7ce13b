"""An HTTP client whose errors name the faulty component."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import define, field
from treq.client import HTTPClient
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectError, ConnectionRefusedError
from twisted.internet.task import deferLater
from twisted.web.client import Agent, HTTPConnectionPool, ResponseNeverReceived

from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.play.timings import Timings, operation_of
from svcserver.kernel import json
from svcserver.players.http import Reply, body_of

ANSWER_S = 30.0
MAX_ANSWER = 16 * 1024 * 1024  # bytes
IDLE_S = 20.0  # idle time of a keep-alive connection; shorter than the other side's timeout
AGAIN_S = 0.2
CONNECTIONS = 8  # maximum number of idle keep-alive connections
_FROM_THE_EDGE = {
    "upstream_unreachable": ("gateway", "the relay cannot reach it"),
    "certificate_mismatch": ("gateway", "its certificate is not the one in the invite"),
}
_BEHIND_THE_GATEWAY = ("bad_gateway", "upstream_timeout")


class WireReply(Reply):
    """A reply whose ``json`` fails if the body is not a JSON object or list."""

    @property
    def json(self) -> Any:
        """Return the body as JSON; raises PlayFailed."""
        try:
            return json.parse(self.body)
        except json.BadJson:
            raise PlayFailed("metagame", "sent a reply that is not JSON") from None


@define(eq=False)
class HttpWire:
    """An HTTP client that sends requests to ``base`` from the address ``source``.

    A refused connection is tried again for ``patience_s`` seconds.
    """

    reactor: Any
    base: str
    source: str = "127.0.0.1"
    link: str = "metagame"  # the component at ``base``
    headers: dict[str, str] = field(factory=dict, repr=False)
    timings: Timings | None = None
    patience_s: float = 0.0
    _pool: Any = field(init=False)
    _http: HTTPClient = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pool = HTTPConnectionPool(self.reactor)
        self._pool.maxPersistentPerHost = CONNECTIONS
        self._pool.cachedConnectionTimeout = IDLE_S
        agent = Agent(
            self.reactor, connectTimeout=10, bindAddress=(self.source, 0), pool=self._pool
        )
        self._http = HTTPClient(agent)

    def close(self) -> Deferred[None]:
        """Close the keep-alive connections, so that the command can end."""
        closed: Deferred[None] = self._pool.closeCachedConnections()
        return closed

    async def send_request(
        self,
        method: str,
        path: str,
        sent: Any = None,
        *,
        want: tuple[int, ...] = (200,),
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> WireReply:
        """Send a request and return the reply.

        Raises PlayFailed if there is no reply, or if the reply's status is not in ``want``. If
        ``want`` is empty, any status is accepted.
        """
        body, kind = body_of(sent)
        fields: Any = {**self.headers, **headers, **kind}
        began = self.reactor.seconds()
        try:
            response = await self._send(method, path, fields, None if sent is None else body)
            body = await response.content().addTimeout(ANSWER_S, self.reactor)
        except (ConnectionRefusedError, ConnectError):
            raise PlayFailed(self.link, f"nothing listens on {self.base}") from None
        except ResponseNeverReceived:
            raise PlayFailed(self.link, f"{method} {path} got no answer from {self.base}") from None
        except Exception as why:
            fault = f"{method} {path} failed: {type(why).__name__}"
            raise PlayFailed(self.link, fault) from why
        if self.timings is not None:
            self.timings.note(operation_of(method, path), self.reactor.seconds() - began)
        reply = WireReply(response.code, body[:MAX_ANSWER])
        if want and reply.status not in want:
            raise self._refused(method, path, reply)
        return reply

    async def _send(self, method: str, path: str, fields: Any, body: bytes | None) -> Any:
        until = self.reactor.seconds() + self.patience_s
        while True:
            pending: Deferred[Any] = self._http.request(
                method, self.base + path, headers=fields, data=body
            )
            try:
                return await pending.addTimeout(ANSWER_S, self.reactor)
            except (ConnectionRefusedError, ConnectError):
                if self.reactor.seconds() >= until:
                    raise
            await deferLater(self.reactor, AGAIN_S)

    def _refused(self, method: str, path: str, reply: WireReply) -> PlayFailed:
        """Return the failure for an unexpected reply, with the component that caused it."""
        word = _error_word(reply.body)
        if word in _FROM_THE_EDGE:
            return PlayFailed(*_FROM_THE_EDGE[word])
        link = "content" if path.startswith("/content") else self.link
        if word in _BEHIND_THE_GATEWAY:
            return PlayFailed(link, "the gateway gets no answer from it")
        if word == "rate_limited":
            return PlayFailed("gateway", f"{method} {path} exceeded the rate limit")
        detail = f" ({word})" if word else ""
        return PlayFailed(link, f"{method} {path} answered {reply.status}{detail}")


def _error_word(body: bytes) -> str:
    try:
        document = json.parse(body)
    except json.BadJson:
        return ""
    word = document.get("error") if isinstance(document, dict) else None
    return word if isinstance(word, str) else ""
