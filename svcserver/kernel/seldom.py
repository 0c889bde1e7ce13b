"""Saying something again only after a while, so that a fault does not fill the log."""

from __future__ import annotations

from collections.abc import Hashable

from attrs import define, field

MAX_KEYS = 20_000  # the longest unused is forgotten


@define
class Seldom:
    """Says yes at most once per key and ``every_s``; keeps a bounded number of keys."""

    every_s: float = 60.0
    most: int = MAX_KEYS
    _said: dict[Hashable, float] = field(factory=dict, init=False, repr=False)

    def now(self, key: Hashable, at: float) -> bool:
        """Whether it is time again; ``at`` in seconds."""
        last = self._said.pop(key, None)
        due = last is None or at - last >= self.every_s
        self._said[key] = at if due or last is None else last
        if len(self._said) > self.most:
            self._said.pop(next(iter(self._said)))
        return due

    def __len__(self) -> int:
        return len(self._said)
