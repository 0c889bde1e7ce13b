"""Several gateways count as one: each tells the others, by the board, which tokens it gave out.

Nobody waits for that. A gateway decides by what it knows; what the others gave meanwhile is owed,
so that who asks two gateways in the same moment gets more than once, and less afterwards. Where the
engine is away each gateway counts by itself.
"""

from __future__ import annotations

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

GAP_S = 0.05  # between two tellings; the first token after a pause is told at once
HELLO_S = 10.0  # how often a gateway tells that it is there
ALONE_S = 3 * HELLO_S  # so long after the last word of another we are alone
MOST_TOLD = 1_000  # addresses of a bucket; more would only be a flood, which each sees itself


@frozen
class Spent:
    """News: the tokens that a gateway gave out, by bucket and address."""

    gateway: str
    of: dict[str, dict[str, int]]


@define(eq=False, slots=False)
class Sharing(Service):
    """Tells the other gateways what ``buckets`` give out, and takes from them what others gave."""

    clock: Any
    board: Board
    buckets: Mapping[str, NetworkBuckets]
    name: str = field(factory=new_id)
    given: int = field(default=0, init=False)  # tokens that the others are told of, since the start
    heard: int = field(default=0, init=False)  # tokens that the others told of
    _spent: dict[str, dict[str, int]] = field(factory=dict, init=False)
    _heard_at: float | None = field(default=None, init=False)  # when another was heard of
    _told_at: float = field(default=float("-inf"), init=False)
    _next: Any = field(default=None, init=False)
    _telling: bool = field(default=False, init=False)

    def startService(self) -> None:
        super().startService()
        self.board.listen(Spent, self._hear)
        for name, bucket in self.buckets.items():
            bucket.taken = partial(self._note, name)
        self._tell()

    def stopService(self) -> None:
        super().stopService()
        for bucket in self.buckets.values():
            bucket.taken = None
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def figures(self) -> dict[str, Figure]:
        """What ``/metrics`` shows of it; what one gateway gave, the others have soon heard of."""
        return {
            "svc_gateway_tokens_given": Figure(
                "Tokens of all rates given out here, of which the other gateways are told.",
                lambda: self.given,
                counts=True,
            ),
            "svc_gateway_tokens_heard": Figure(
                "Tokens of which other gateways told this one.", lambda: self.heard, counts=True
            ),
        }

    @property
    def alone(self) -> bool:
        """Whether no other gateway has been heard of for a while."""
        return self._heard_at is None or self.clock.seconds() - self._heard_at > ALONE_S

    def _note(self, bucket: str, peer: str) -> None:
        spent = self._spent.setdefault(bucket, {})
        if peer in spent or len(spent) < MOST_TOLD:
            spent[peer] = spent.get(peer, 0) + 1
            self.given += 1
        if not self.alone:
            self._tell_in(max(0.0, self._told_at + GAP_S - self.clock.seconds()))

    def _tell_in(self, seconds: float) -> None:
        if self._telling or not self.running:
            return
        if self._next is not None:
            if self._next.getTime() <= self.clock.seconds() + seconds:
                return
            self._next.cancel()
        self._next = self.clock.callLater(seconds, self._tell)

    def _tell(self) -> None:
        if self._next is not None and self._next.active():
            self._next.cancel()
        self._next, self._telling, self._told_at = None, True, self.clock.seconds()
        news, self._spent = Spent(self.name, self._spent), {}
        told = self.board.transact(lambda transaction: transaction.publish(news))
        log_failure(told.addBoth(self._told))

    def _told(self, result: Any) -> Any:
        self._telling = False
        soon = self._spent and not self.alone
        self._tell_in(GAP_S if soon else HELLO_S)
        return result

    def _hear(self, news: Spent) -> None:
        if news.gateway == self.name or not self.running:
            return
        was_alone, now = self.alone, self.clock.seconds()
        self._heard_at = now
        for name, bucket in self.buckets.items():
            for peer, count in news.of.get(name, {}).items():
                bucket.owe(peer, now, count)
                self.heard += count
        if was_alone:
            self._tell_in(0.0)
