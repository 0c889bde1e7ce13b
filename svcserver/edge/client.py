"""The client's side of an exchange, as the exchange sees it."""

from __future__ import annotations

from typing import Any, Protocol

from attrs import define
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from svcserver.edge.verdicts import ProxyPolicy


class Client(Protocol):
    """What an exchange needs of the connection it came in on."""

    policy: ProxyPolicy
    transport: Any

    def is_stopping(self) -> bool:
        """Whether the service is stopping."""

    def advance(self) -> None:
        """Parse the bytes that were received and not used yet."""

    def hold(self, reason: str) -> None:
        """Stop reading from the client until ``release`` with the same reason."""

    def release(self, reason: str) -> None:
        """Take back ``hold``; reading goes on when no reason is left."""

    def request_complete(self) -> None:
        """The whole request has arrived."""

    def over(self, exchange: Any, *, close: bool) -> None:
        """The answer is complete; ``close``: no other may follow on this connection."""

    def fail(
        self,
        exchange: Any,
        status: int,
        code: str,
        reason: str,
        retry_after_s: int | None = None,
    ) -> None:
        """The upstream will not answer: answer with this error."""

    def seconds(self) -> float:
        """Seconds of the monotonic clock."""

    def cut(self) -> None:
        """Abort the connection; what was written may be lost."""


@implementer(IPushProducer)
@define(eq=False, slots=False)
class Upward:
    """Paused by the upstream's transport when the upstream reads too slowly."""

    client: Client

    def pauseProducing(self) -> None:
        """Read no more of the request."""
        self.client.hold("upstream")

    def resumeProducing(self) -> None:
        self.client.release("upstream")

    def stopProducing(self) -> None:
        """Nothing to do: the upstream's own connection reports its loss."""
