"""What was made of the same bytes before: clients send few heads, but each of them often.

Bounded in bytes, because what is made of a head of two kilobytes may take forty.
"""

from __future__ import annotations

from typing import TypeVar

from attrs import define

from svcserver.kernel.cache import BoundedCache

T = TypeVar("T")

MOST_BYTES = 16 * 1024 * 1024  # of memory, about
LONGEST = 2_048  # bytes of a head that is remembered; longer ones are rare
# bytes of memory a head takes: measured, and rounded up; each name in a Connection field is kept
_EACH, _FIELD, _NAMED, _BYTE = 800, 300, 130, 4


@define(eq=False)
class Remembered(BoundedCache[bytes, T]):
    """Heads, or what was made of them, by their bytes."""

    most: int = MOST_BYTES
    each: int = _EACH

    def keep(self, raw: bytes, made: T) -> None:
        """Remember it for as long as there is room."""
        if len(raw) <= LONGEST:
            self.put(raw, made)

    def weight(self, raw: bytes) -> int:
        """About how many bytes of memory a remembered head takes."""
        return self.each + _BYTE * len(raw) + _FIELD * raw.count(b"\n") + _NAMED * raw.count(b",")
