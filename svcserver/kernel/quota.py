"""A count of events per key and window, of which a place can be taken and given back.

``Windows`` says after the fact that something happened. Here a place is taken before a
transaction that may turn out to need none, so that two at once never share the last one:

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
    """``free``: there was one; ``used``: it is not to be given back."""

    free: bool
    used: bool = False


@define
class Quota:
    """At most ``limit`` places per key in any ``window_s`` seconds; takes ``now``.

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
        """A place for the time of an act, given back unless the act has used it."""
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
