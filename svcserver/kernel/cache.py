"""A bounded cache for values that every request needs.

If speed does not matter, use ``cachetools.LRUCache``. The time of one look-up and one write is 0.15
us with this cache, 0.65 us with LRUCache, 0.21 us with an OrderedDict and 0.06 us with a dict.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

from attrs import define, field

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@define(eq=False)
class BoundedCache(Generic[K, V]):
    """A cache of recently used entries; ``most`` is the maximum number of entries.

    The entries are in two halves. An entry that is used moves to the younger half. When this half
    is full, the older half is dropped, and the younger half takes its place. So the ``most / 2``
    entries that were used last are always kept. If a subclass overrides ``weight``, ``most`` limits
    the sum of the weights. A value must not be None.
    """

    most: int
    _young: dict[K, V] = field(factory=dict, init=False, repr=False)
    _old: dict[K, V] = field(factory=dict, init=False, repr=False)
    _room: int = field(init=False, repr=False)  # weight that still fits into the younger half

    def __attrs_post_init__(self) -> None:
        self._room = max(1, self.most // 2)

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, and mark the entry as used."""
        value = self._young.get(key)
        if value is None and self._old:
            value = self._old.pop(key, None)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Store ``value``, replacing any previous value of the key."""
        young = self._young
        if key not in young:
            weight = self.weight(key)
            if weight > self._room:
                self._old, self._young = young, {}
                young, self._room = self._young, max(1, self.most // 2)
            self._room -= weight
        young[key] = value

    def weight(self, key: K) -> int:
        """Return how much an entry counts towards the limit; a subclass may return more than 1."""
        return 1

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
