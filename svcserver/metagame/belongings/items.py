"""Items, inventory transactions and sizes as values. Spec: 1 §2 Inventory transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256

from attrs import define, field, frozen

MAX_SOURCE = 128  # characters
ROW = 32  # bytes that a stack or an item counts besides its data


@define(unsafe_hash=True)  # not frozen: two or three are made for every transaction
class Size:
    """A number of stacks and instanced items, and their bytes; of a change it may be negative.

    Kept beside an inventory, since adding it up is linear in it.
    """

    items: int = 0
    bytes: int = 0

    def __add__(self, other: Size) -> Size:
        if other is NOTHING:  # most changes only count up what is held already
            return self
        return Size(self.items + other.items, self.bytes + other.bytes)

    def __sub__(self, other: Size) -> Size:
        return Size(self.items - other.items, self.bytes - other.bytes)


NOTHING = Size()


@define  # not frozen: a frozen one takes twice as long to make
class Stacked:
    """A stack of one kind; ``extra`` is the JSON of further keys, returned as sent."""

    catalog_id: str
    quantity: int
    extra: bytes | None = None


@frozen
class Instance:
    """An instanced item with its own version; ``body`` is its JSON as sent."""

    instance_id: str
    catalog_id: str
    version: int | None
    stateless: bool
    body: bytes = field(repr=False)

    @property
    def size(self) -> Size:
        """What it counts towards the bounds of a character."""
        return Size(1, ROW + len(self.body))


@frozen
class Removal:
    """An instance to remove; only a lower version than the stored one is refused."""

    instance_id: str
    version: int | None


@define  # not frozen: a frozen one takes twice as long to make
class Transaction:
    """A change of one character's belongings.

    ``answer`` makes the reply of the stacks' final totals, which is stored for a repeat;
    ``transaction_id`` is None when a repeat cannot be recognised.
    """

    transaction_id: str | None
    source: str
    add_stacked: list[Stacked]
    remove_stacked: list[Stacked]
    add: list[Instance]
    save: list[Instance]
    remove: list[Removal]
    answer: Callable[[Mapping[str, int]], bytes] = field(repr=False)

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing, since it lists nothing."""
        return not (self.add_stacked or self.remove_stacked or self.add or self.save or self.remove)


def stack_bytes(catalog_id: str, extra: bytes | None) -> int:
    """What a stack counts towards the bounds of a character."""
    return ROW + len(catalog_id.encode()) + len(extra or b"")


def transaction_id(sent: str | None) -> str | None:
    """The id by which a repeat is recognised; None for an empty or zero one.

    Zero is one of only ``0`` and ``-``. A long id is stored as its hash.
    """
    if sent is None or not sent.strip("0-"):
        return None
    return sent if len(sent) <= 64 and "\0" not in sent else sha256(sent.encode()).hexdigest()


def source_of(sent: str | None) -> str:
    """``source`` as the item log stores it."""
    return (sent or "")[:MAX_SOURCE].replace("\0", "")
