"""A bounded cache for what every request asks for.

Where no request's time counts, use ``cachetools.LRUCache``: a look-up and a write of it take
0.65 us where they take 0.15 here, 0.21 in an OrderedDict and 0.06 in a plain dict.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from attrs import define, field

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@define(eq=False)
class BoundedCache(Generic[K, V]):
    """Keeps at least what was used last, up to half of ``most``, and never more than ``most``.

    Two generations stand for the order of use: what is used is in the younger, and the elder is
    dropped whole when the younger has half of ``most``. Entries may count more than 1 each
    (``weight``): then ``most`` bounds what they count together. None is no value.
    """

    most: int
    _young: dict[K, V] = field(factory=dict, init=False, repr=False)
    _old: dict[K, V] = field(factory=dict, init=False, repr=False)
    _room: int = field(init=False, repr=False)  # left for the young

    def __attrs_post_init__(self) -> None:
        self._room = max(1, self.most // 2)

    def get(self, key: K) -> V | None:
        """What is kept under ``key``, which counts as used."""
        found = self._young.get(key)
        if found is None and self._old:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Keep ``value``, in place of what was there."""
        young = self._young
        if key not in young:
            weight = self.weight(key)
            if weight > self._room:
                self._old, self._young = young, {}
                young, self._room = self._young, max(1, self.most // 2)
            self._room -= weight
        young[key] = value

    def weight(self, key: K) -> int:
        """How much of the bound an entry takes; 1 where entries are counted."""
        return 1

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
