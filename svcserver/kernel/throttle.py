"""Saying something again only after a while, so that a fault does not fill the log."""

from __future__ import annotations

from collections.abc import Hashable

from attrs import define, field

MAX_KEYS = 20_000  # the longest unused is forgotten


@define
class Throttle:
    """Says yes at most once per key and ``every_s``; keeps a bounded number of keys."""

    every_s: float = 60.0
    most: int = MAX_KEYS
    _said: dict[Hashable, float] = field(factory=dict, init=False, repr=False)

    def due(self, key: Hashable, now: float) -> bool:
        """Whether ``key`` may pass again, and if so, start its wait anew; ``now`` in seconds."""
        last = self._said.pop(key, None)
        due = last is None or now - last >= self.every_s
        self._said[key] = now if due or last is None else last
        if len(self._said) > self.most:
            self._said.pop(next(iter(self._said)))
        return due

    def __len__(self) -> int:
        return len(self._said)
