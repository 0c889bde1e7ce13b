"""How much one address may take: token buckets per kind of request, connections at once.

An address is an IPv4 address or the first 64 bits of an IPv6 one, because whoever has
one IPv6 address has the whole network. Spec: 2 §8.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from attrs import define, field

from svcserver.gateway.policy import Bucket
from svcserver.kernel.networks import network_of
from svcserver.kernel.rates import Rate, TokenBuckets

MAX_KEYS = 20_000  # addresses remembered per bucket; the longest unused is forgotten


def retry_after_s(wait_s: float) -> int:
    """Whole seconds for the ``Retry-After`` header, at least 1."""
    return max(1, math.ceil(wait_s - 1e-9))


@define
class Spending:
    """The token buckets of every address."""

    rates: Mapping[Bucket, Rate]
    _buckets: dict[Bucket, TokenBuckets] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._buckets = {
            bucket: TokenBuckets(rate, MAX_KEYS) for bucket, rate in self.rates.items()
        }

    def take(self, bucket: Bucket, peer: str, now: float) -> int:
        """Take a token: 0, or the seconds for ``Retry-After``."""
        wait_s = self._buckets[bucket].take(network_of(peer), now)
        return retry_after_s(wait_s) if wait_s else 0


@define
class Crowd:
    """Open connections, in all and per address, and how fast new ones may come."""

    most: int
    most_per_address: int
    connects: TokenBuckets
    total: int = field(default=0, init=False)
    _open: Counter[str] = field(factory=Counter, init=False)

    def enter(self, peer: str, now: float) -> str:
        """Count a connection: empty, or why it must go."""
        key = network_of(peer)
        if self.total >= self.most:
            return "max_connections"
        if self._open[key] >= self.most_per_address:
            return "max_connections_per_ip"
        if self.connects.take(key, now):
            return "connect_rate"
        self.total += 1
        self._open[key] += 1
        return ""

    def leave(self, peer: str) -> None:
        """A counted connection is gone."""
        key = network_of(peer)
        self.total -= 1
        self._open[key] -= 1
        if self._open[key] <= 0:
            del self._open[key]

    def __len__(self) -> int:
        return len(self._open)
