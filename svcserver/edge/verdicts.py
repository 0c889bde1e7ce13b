"""An edge service's decision about a request, and the record of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, frozen
from twisted.internet.defer import Deferred

from svcserver.http.connection import Deadlines
from svcserver.http.heads import Fault, RequestHead
from svcserver.kernel import json


@frozen
class Limits(Deadlines):
    """The time limits in seconds, and the largest allowed body in bytes (None for no limit)."""

    request_s: float = 30.0
    upstream_idle_s: float = 120.0
    tunnel_idle_s: float = 300.0
    handshake_s: float = 10.0
    max_body: int | None = None


@frozen
class ProxyPage:
    """A page that the proxy itself answers with; ``lines`` are complete header lines."""

    content: bytes
    lines: bytes


@frozen
class Refuse:
    """The decision not to forward a request; ``body()`` is the body of the answer."""

    status: int
    code: str
    reason: str = ""  # the reason in the log
    retry_after_s: int | None = None
    close: bool = False
    page: ProxyPage | None = None

    def body(self) -> bytes:
        """Return the page if there is one, else ``{"error": code}``."""
        return self.page.content if self.page is not None else json.dump({"error": self.code})


@define  # not frozen, which costs twice as much: every request creates one
class Forward:
    """The decision to send the request to ``upstream``; ``added`` are complete header lines.

    ``repeatable`` means that ``added`` has an id by which the upstream recognises a repeated
    request. Then the request may be sent again if the upstream ends before it answers.
    """

    upstream: Upstream
    route: str
    added: bytes = b""
    tunnel: bool = False
    on_answer: Callable[[int], None] | None = None  # called with the status of the answer
    repeatable: bool = False


Verdict = Refuse | Forward


class Unreachable(Exception):
    """The error when an upstream cannot be reached; the client gets ``status`` and ``code``."""

    def __init__(self, status: int, code: str, retry_after_s: int | None = None) -> None:
        super().__init__(code)
        self.status, self.code, self.retry_after_s = status, code, retry_after_s


class Upstream(Protocol):
    """A source of connections; ``take`` returns a connection that nothing else uses."""

    def take(self, *, fresh: bool = False) -> Any:
        """Return an idle connection (never if ``fresh``), or a Deferred with a new connection."""

    def give_back(self, connection: Any) -> None:
        """Take back an idle connection on which nothing is left to read."""

    def wait(
        self, error: Unreachable, size: int, since: float | None = None, peer: str = ""
    ) -> Deferred[None]:
        """Return a Deferred that fires when the request can be retried; see ``Parking.wait``."""


@define
class Record:
    """The data about a request and its answer that the log line needs."""

    peer: str
    began: float
    head: RequestHead | None = None
    route: str = ""
    status: int = 0
    reason: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    ended: float = 0.0
    aborted: bool = False
    tunnel: bool = False
    tries: int = 0  # how often the request was sent, including retries


class ProxyPolicy(Protocol):
    """The rules of one service: the gateway or the relay."""

    limits: Limits
    dropped: frozenset[bytes]  # lowercase request fields that are never forwarded
    hidden: frozenset[bytes]  # answer fields that the client never gets
    repeats: bool  # retry a request whose upstream ends before it answers; see ``Retry.is_allowed``

    def judge(self, head: RequestHead, peer: str) -> Verdict:
        """Decide whether to refuse or to forward a request.

        Takes a token if a rate limit applies.
        """

    def wrong(self, fault: Fault) -> Refuse:
        """Return the answer to a malformed message."""

    def describe_failure(self, why: str, answered: bool) -> tuple[int, str, str]:
        """Return status, code and log word for a request whose upstream failed.

        ``why`` is ``reset`` or ``silent``; ``answered`` is True if the upstream's answer had begun.
        """

    def done(self, record: Record) -> None:
        """Count and log a request that has ended."""
