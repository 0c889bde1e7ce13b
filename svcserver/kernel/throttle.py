"""A throttle for repeated messages, so that a lasting fault does not fill the log."""

from __future__ import annotations

from collections.abc import Hashable

from attrs import define, field
from cachetools import LRUCache

MAX_KEYS = 20_000  # the longest unused is forgotten


@define
class Throttle:
    """Lets a key pass at most once in ``every_s`` seconds; remembers at most ``most`` keys."""

    every_s: float = 60.0
    most: int = MAX_KEYS
    _said: LRUCache[Hashable, float] = field(init=False, repr=False)

    @_said.default
    def _nothing(self) -> LRUCache[Hashable, float]:
        return LRUCache(self.most)

    def due(self, key: Hashable, now: float) -> bool:
        """Whether ``key`` passes now (seconds, any origin); if so, its wait starts again."""
        last = self._said.get(key)
        if last is not None and now - last < self.every_s:
            return False
        self._said[key] = now
        return True

    def __len__(self) -> int:
        return len(self._said)
