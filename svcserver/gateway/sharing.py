"""Limits shared by several gateways: each gateway publishes how many tokens it gave out.

The messages go through the live-state engine (LIVE_URL); no request waits for them. A gateway
decides with the counts that it has, and later subtracts the tokens that other gateways gave out. A
client that uses two gateways therefore gets more tokens at first, and fewer afterwards. While the
engine is down, each gateway counts only its own requests.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import Service

from svcserver.board.board import Board
from svcserver.board.waiting import log_failure
from svcserver.gateway.limits import NetworkBuckets
from svcserver.kernel.counters import Figure
from svcserver.kernel.ids import new_id

GAP_S = 0.05  # between two messages; the first token after a pause is published at once
HELLO_S = 10.0  # how often a gateway publishes without tokens
ALONE_S = 3 * HELLO_S  # after so long without a message of another gateway, we are alone
MOST_TOLD = 1_000  # addresses per bucket; each gateway itself limits a flood of more addresses


@frozen
class Spent:
    """The message that says how many tokens a gateway gave out, by bucket and address."""

    gateway: str
    of: dict[str, dict[str, int]]


@define(eq=False, slots=False)
class Sharing(Service):
    """The service that exchanges token counts with the other gateways."""

    clock: Any
    board: Board
    buckets: Mapping[str, NetworkBuckets]
    name: str = field(factory=new_id)
    shared: int = field(default=0, init=False)  # tokens published since the start
    received: int = field(default=0, init=False)  # tokens that the other gateways published
    _spent: dict[str, dict[str, int]] = field(factory=dict, init=False)
    _received_at: float | None = field(default=None, init=False)  # when others last published
    _published_at: float = field(default=float("-inf"), init=False)
    _next: Any = field(default=None, init=False)
    _publishing: bool = field(default=False, init=False)

    def startService(self) -> None:
        super().startService()
        self.board.listen(Spent, self._receive)
        for name, bucket in self.buckets.items():
            bucket.taken = partial(self._note, name)
        self._publish()

    def stopService(self) -> None:
        super().stopService()
        for bucket in self.buckets.values():
            bucket.taken = None
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def figures(self) -> dict[str, Figure]:
        return {
            "svc_gateway_tokens_given": Figure(
                "Rate-limit tokens given out here and reported to other gateways.",
                lambda: self.shared,
                counts=True,
            ),
            "svc_gateway_tokens_heard": Figure(
                "Rate-limit tokens that other gateways reported to this one.",
                lambda: self.received,
                counts=True,
            ),
        }

    @property
    def alone(self) -> bool:
        """True if no other gateway has published recently."""
        return self._received_at is None or self.clock.seconds() - self._received_at > ALONE_S

    def _note(self, bucket: str, peer: str) -> None:
        spent = self._spent.setdefault(bucket, {})
        if peer in spent or len(spent) < MOST_TOLD:
            spent[peer] = spent.get(peer, 0) + 1
            self.shared += 1
        if not self.alone:
            self._publish_in(max(0.0, self._published_at + GAP_S - self.clock.seconds()))

    def _publish_in(self, seconds: float) -> None:
        if self._publishing or not self.running:
            return
        if self._next is not None:
            if self._next.getTime() <= self.clock.seconds() + seconds:
                return
            self._next.cancel()
        self._next = self.clock.callLater(seconds, self._publish)

    def _publish(self) -> None:
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next, self._publishing, self._published_at = None, True, self.clock.seconds()
        news, self._spent = Spent(self.name, self._spent), {}
        publishing = self.board.transact(lambda transaction: transaction.publish(news))
        log_failure(publishing.addBoth(self._published))

    def _published(self, result: Any) -> Any:
        self._publishing = False
        soon = self._spent and not self.alone
        self._publish_in(GAP_S if soon else HELLO_S)
        return result

    def _receive(self, news: Spent) -> None:
        if news.gateway == self.name or not self.running:
            return
        was_alone, now = self.alone, self.clock.seconds()
        self._received_at = now
        for name, bucket in self.buckets.items():
            for peer, count in news.of.get(name, {}).items():
                bucket.owe(peer, now, count)
                self.received += count
        if was_alone:
            self._publish_in(0.0)
