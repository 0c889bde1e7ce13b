"""A count of events per key and window, of which a place can be taken and given back.

``Windows`` says after the fact that something happened. Here a place is taken before a
transaction that may turn out to need none, so that two at once never share the last one.
"""

from __future__ import annotations

from collections import OrderedDict

from attrs import define, field


@define
class Quota:
    """At most ``limit`` places per key in any ``window_s`` seconds; takes ``now``.

    When more than ``max_keys`` are known the longest unused is forgotten.
    """

    limit: int
    window_s: float
    max_keys: int = 65_536
    _taken: OrderedDict[str, list[float]] = field(factory=OrderedDict, init=False)

    def take(self, key: str, now: float) -> bool:
        """Take a place; False when none is left."""
        taken = [at for at in self._taken.get(key, ()) if at > now - self.window_s]
        if len(taken) >= self.limit:
            return False
        self._taken[key] = [*taken, now]
        self._taken.move_to_end(key)
        if len(self._taken) > self.max_keys:
            self._taken.popitem(last=False)
        return True

    def give_back(self, key: str, at: float) -> None:
        """Undo ``take(key, at)``."""
        taken = self._taken.get(key, [])
        if at in taken:
            taken.remove(at)
        if not taken:
            self._taken.pop(key, None)

    def __len__(self) -> int:
        return len(self._taken)
