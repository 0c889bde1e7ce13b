"""Items, inventory transactions and sizes as values. Spec: 1 §2 Inventory transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from attrs import define, field, frozen

MAX_SOURCE = 128  # characters
ROW = 32  # bytes that a stack or an item counts besides its data


@define(unsafe_hash=True)  # not frozen: two or three are made for every transaction
class Size:
    """A number of stacks and instanced items, and their bytes; a change may be negative.

    It is stored beside an inventory, because computing it is linear in the inventory.
    """

    items: int = 0
    bytes: int = 0

    def __add__(self, change: Size) -> Size:
        return Size(self.items + change.items, self.bytes + change.bytes)

    def __sub__(self, change: Size) -> Size:
        return Size(self.items - change.items, self.bytes - change.bytes)


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
        """Its share of the bounds of a character."""
        return Size(1, ROW + len(self.body))


@frozen
class Removal:
    """An instance to remove; only a lower version than the stored one is refused."""

    instance_id: str
    version: int | None

    def is_outdated(self, held: Instance) -> bool:
        """Return whether a newer version is held."""
        if self.version is None or held.version is None:
            return False
        return self.version < held.version


@define  # not frozen: a frozen one takes twice as long to make
class Transaction:
    """A change of one character's belongings.

    ``added`` and ``removed`` are quantities by catalogue id, ``extras`` the further keys of added
    stacks as JSON. ``answer`` makes the reply of the stacks' final totals, which is stored for a
    repeat; ``transaction_id`` is None when a repeat cannot be recognised.
    """

    transaction_id: str | None
    source: str
    answer: Callable[[Mapping[str, int]], bytes] = field(repr=False)
    added: Mapping[str, int] = {}
    removed: Mapping[str, int] = {}
    extras: Mapping[str, bytes] = field(default={}, repr=False)
    add: Sequence[Instance] = ()
    save: Sequence[Instance] = ()
    remove: Sequence[Removal] = ()

    @property
    def catalog_ids(self) -> list[str]:
        """The stacks it touches: those it adds to first, then those it only removes from."""
        return list({**self.added, **self.removed})

    @property
    def instance_ids(self) -> list[str]:
        """The instanced items it touches, each once."""
        ids = [removal.instance_id for removal in self.remove]
        ids += [item.instance_id for item in (*self.save, *self.add)]
        return list(dict.fromkeys(ids))


def stack_bytes(catalog_id: str, extra: bytes | None) -> int:
    """Return the share of a stack in the bounds of a character."""
    return ROW + len(catalog_id.encode()) + len(extra or b"")


def transaction_id(sent: str | None) -> str | None:
    """Return the id by which a repeat is recognised; None for an empty or zero one.

    Zero is one of only ``0`` and ``-``. A long id is stored as its hash.
    """
    if sent is None or not sent.strip("0-"):
        return None
    return sent if len(sent) <= 64 and "\0" not in sent else sha256(sent.encode()).hexdigest()


def source_of(sent: str | None) -> str:
    """Return ``source`` as the item log stores it."""
    return (sent or "")[:MAX_SOURCE].replace("\0", "")
