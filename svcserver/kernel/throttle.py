"""Throttles for log lines, so that neither a lasting fault nor a flood fills the log."""

from collections.abc import Hashable

from attrs import define, field
from cachetools import LRUCache

from svcserver.kernel.rates import Rate, TokenBuckets

MAX_KEYS = 20_000  # the least recently used is dropped
EACH = Rate(40, 60)  # lines about one address
ALL = Rate(400, 600)  # lines about all of them; ten a second fill 150 MB a day


@define
class Throttle:
    """A throttle: ``due`` is true for each key at most once in ``every_s`` seconds.

    It remembers only the ``most`` keys that were used last.
    """

    every_s: float = 60.0
    most: int = MAX_KEYS
    _passed: LRUCache[Hashable, float] = field(init=False, repr=False)

    @_passed.default
    def _nothing(self) -> LRUCache[Hashable, float]:
        return LRUCache(self.most)

    def due(self, key: Hashable, now: float) -> bool:
        """Return whether the interval of ``key`` is over at ``now``; if so, restart it."""
        last = self._passed.get(key)
        if last is not None and now - last < self.every_s:
            return False
        self._passed[key] = now
        return True

    def __len__(self) -> int:
        return len(self._passed)


@define
class LogSampler:
    """A limit on similar log lines; each written line says how many were omitted before it."""

    _each: TokenBuckets = field(factory=lambda: TokenBuckets(EACH, MAX_KEYS), init=False)
    _all: TokenBuckets = field(factory=lambda: TokenBuckets(ALL, 1), init=False)
    omitted: int = field(default=0, init=False)  # omitted since the last written line

    def keeps(self, key: str, now: float) -> bool:
        """Return whether to write the line for ``key``; omitted lines are counted."""
        keeps = not self._each.take(key, now) and not self._all.take("", now)
        self.omitted += not keeps
        return keeps

    def take_omitted(self) -> int:
        """Return the number of lines omitted since the last call."""
        count, self.omitted = self.omitted, 0
        return count
