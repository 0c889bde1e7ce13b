"""What was made of the same bytes before: clients send few heads, but each of them often.

Bounded in bytes, because what is made of a head of two kilobytes may take forty. Two
generations stand for the order of use: the elder goes when the younger is full, and what is
asked for again is young again. That costs a hit one look-up, where an order would be written.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from attrs import define, field

T = TypeVar("T")

MOST_BYTES = 8 * 1024 * 1024  # of one generation
LONGEST = 2_048  # bytes of a head that is remembered; longer ones are rare
_EACH, _FIELD, _BYTE = 800, 180, 3  # bytes of memory a head takes: measured, and rounded up


@define
class Remembered(Generic[T]):
    """Heads, or what was made of them, by their bytes."""

    most: int = MOST_BYTES
    _young: dict[bytes, T] = field(factory=dict, init=False, repr=False)
    _old: dict[bytes, T] = field(factory=dict, init=False, repr=False)
    _room: int = field(init=False)  # bytes left for the young

    def __attrs_post_init__(self) -> None:
        self._room = self.most

    def get(self, raw: bytes) -> T | None:
        """What was kept for these bytes, if it still is."""
        return self._young.get(raw) or (self._old and self._again(raw)) or None

    def _again(self, raw: bytes) -> T | None:
        found = self._old.pop(raw, None)
        if found is not None:
            self.keep(raw, found)
        return found

    def keep(self, raw: bytes, made: T) -> None:
        """Remember it for as long as there is room."""
        if len(raw) > LONGEST:
            return
        self._room -= _EACH + _BYTE * len(raw) + _FIELD * raw.count(b"\n")
        if self._room < 0:
            self._old, self._young = self._young, {}
            self._room = self.most
        self._young[raw] = made

    def __len__(self) -> int:
        return len(self._young) + len(self._old)
