"""The size of an inventory: updated with every change, since adding it up is linear in it."""

from __future__ import annotations

from attrs import frozen

ROW = 32  # bytes that a stack or an item counts besides its data


@frozen
class Size:
    """A number of stacks and instanced items, and their bytes; of a change it may be negative."""

    items: int = 0
    bytes: int = 0

    def __add__(self, other: Size) -> Size:
        if other is NOTHING:  # most changes only count up what is held already
            return self
        return Size(self.items + other.items, self.bytes + other.bytes)

    def __sub__(self, other: Size) -> Size:
        return Size(self.items - other.items, self.bytes - other.bytes)


NOTHING = Size()
