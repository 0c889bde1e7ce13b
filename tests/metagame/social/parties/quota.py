"""A quota of events per key and time window, whose places can be reserved and given back.

``rates.Windows`` counts an event after it has happened. Here a place is reserved before a
transaction that may turn out to need none, so that two at once never take the same last one:

    with quota.place(account, now) as place:
        place.used = await act(may=place.free)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define, field
from cachetools import LRUCache


@define
class Place:
    """A reserved place. ``free``: there was one; ``used``: set it and the place stays taken."""

    free: bool
    used: bool = False


@define
class Quota:
    """At most ``limit`` places per key in any ``window_s`` seconds; ``now`` is in seconds.

    When more than ``max_keys`` are known the longest unused is forgotten.
    """

    limit: int
    window_s: float
    max_keys: int = 65_536
    _taken: LRUCache[str, list[float]] = field(init=False)

    @_taken.default
    def _nothing(self) -> LRUCache[str, list[float]]:
        return LRUCache(self.max_keys)

    def take(self, key: str, now: float) -> bool:
        """Take a place; False when none is left."""
        taken = [at for at in self._taken.get(key, ()) if at > now - self.window_s]
        if len(taken) >= self.limit:
            return False
        self._taken[key] = [*taken, now]
        return True

    @contextmanager
    def place(self, key: str, now: float) -> Iterator[Place]:
        """Reserve a place for the duration of the block, given back unless ``used`` was set."""
        place = Place(self.take(key, now))
        try:
            yield place
        finally:
            if place.free and not place.used:
                self.give_back(key, now)

    def give_back(self, key: str, at: float) -> None:
        """Undo ``take(key, at)``."""
        taken = self._taken.get(key, [])
        if at in taken:
            taken.remove(at)
        if not taken:
            self._taken.pop(key, None)

    def __len__(self) -> int:
        return len(self._taken)
