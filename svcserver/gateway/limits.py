"""The limits of one network: token buckets per kind of request, and open connections.

An IPv6 address counts as its first 64 bits, because a client with one IPv6 address controls the
whole /64 network. Providers also give whole /56 and /48 networks to one customer. So a whole /56
gets only twice the limit of one address, and a whole /48 four times the limit of one address. Spec:
2 §8.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache

from attrs import define, field

from svcserver.gateway.policy import Bucket
from svcserver.kernel.networks import network_of
from svcserver.kernel.rates import Rate, TokenBuckets

MAX_KEYS = 20_000  # networks stored per bucket; the least recently used is dropped
TIERS = ((64, 1), (56, 2), (48, 4))  # prefix length of an IPv6 network: its number of shares


def retry_after_s(wait_s: float) -> int:
    """Return the whole seconds for the ``Retry-After`` header, at least 1."""
    return max(1, math.ceil(wait_s - 1e-9))


@lru_cache(maxsize=8192)
def networks_of(peer: str) -> tuple[tuple[str, int], ...]:
    """Return the networks that contain an address, smallest first, each with a factor.

    A network's limit is the limit of one address times this factor, which is 4 for an IPv6 /48.
    """
    narrowest, *wider = (network_of(peer, bits) for bits, _ in TIERS)
    if narrowest in wider:  # an IPv4 address counts only as itself
        return ((narrowest, 1),)
    return tuple(zip((narrowest, *wider), (shares for _, shares in TIERS), strict=True))


@define
class NetworkBuckets:
    """A token bucket for each network; larger networks have larger buckets.

    ``taken`` is called with each address for which a token was taken.
    """

    rate: Rate
    taken: Callable[[str], None] | None = field(default=None, init=False)
    _buckets: dict[int, TokenBuckets] = field(init=False)

    def __attrs_post_init__(self) -> None:
        burst, per_minute = self.rate.burst, self.rate.per_minute
        self._buckets = {
            shares: TokenBuckets(Rate(burst * shares, per_minute * shares), MAX_KEYS)
            for _, shares in TIERS
        }

    def take(self, peer: str, now: float) -> float:
        """Take a token per network that contains ``peer``; return 0.0, or the seconds to wait."""
        for network, shares in networks_of(peer):
            if wait := self._buckets[shares].take(network, now):
                return wait
        if self.taken is not None:
            self.taken(peer)
        return 0.0

    def owe(self, peer: str, now: float, count: int) -> None:
        """Take ``count`` tokens from the address's buckets: another gateway has given them out."""
        for network, shares in networks_of(peer):
            self._buckets[shares].owe(network, now, count)


@define
class Spending:
    """The token buckets for every kind of request."""

    rates: Mapping[Bucket, Rate]
    buckets: dict[Bucket, NetworkBuckets] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.buckets = {bucket: NetworkBuckets(rate) for bucket, rate in self.rates.items()}

    def take(self, bucket: Bucket, peer: str, now: float) -> int:
        """Take a token: return 0, or the seconds for ``Retry-After``."""
        wait_s = self.buckets[bucket].take(peer, now)
        return retry_after_s(wait_s) if wait_s else 0


@define
class ConnectionCounts:
    """The number of open connections, in total and per network, and the rate of new connections.

    ``make_room`` closes an idle connection; it returns False if no connection is idle.
    """

    most: int
    most_per_address: int
    connects: NetworkBuckets
    make_room: Callable[[], bool] = field(default=lambda: False)
    total: int = field(default=0, init=False)
    _open: Counter[str] = field(factory=Counter, init=False)

    def enter(self, peer: str, now: float) -> str:
        """Count a new connection; return the reason to refuse it, or ""."""
        networks = networks_of(peer)
        for network, shares in networks:
            if self._open[network] >= self.most_per_address * shares:
                return "max_connections_per_ip" if shares == 1 else "max_connections_per_network"
        if self.connects.take(peer, now):
            return "connect_rate"
        if self.total >= self.most and not self.make_room():
            return "max_connections"
        self.total += 1
        for network, _ in networks:
            self._open[network] += 1
        return ""

    def leave(self, peer: str) -> None:
        """Subtract a closed connection from the counts of its networks."""
        self.total -= 1
        for network, _ in networks_of(peer):
            self._open[network] -= 1
            if self._open[network] <= 0:
                del self._open[network]

    def beside(self, peer: str) -> int:
        """Return the number of connections from an IPv4 address, or from an IPv6 /48 network."""
        return self._open[networks_of(peer)[-1][0]]

    def __len__(self) -> int:
        return len(self._open)
