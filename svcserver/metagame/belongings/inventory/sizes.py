"""How much a character holds: counted with every change, since adding it up would take
longer the more there is.
"""

from __future__ import annotations

from attrs import frozen

ROW = 32  # bytes that a stack or an item counts beside what it holds


@frozen
class Size:
    """So many stacks and single items, and their bytes; a change may be below zero."""

    items: int = 0
    bytes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.items + other.items, self.bytes + other.bytes)

    def __sub__(self, other: Size) -> Size:
        return Size(self.items - other.items, self.bytes - other.bytes)


NOTHING = Size()
