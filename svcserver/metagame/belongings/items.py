"""Items, inventory sizes and inventory transactions. Spec: 1 §2 Inventory transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from attrs import define, field, frozen

MAX_SOURCE = 128  # characters
ROW = 32  # bytes added to the data's size for each stack or item


@define(unsafe_hash=True)  # not frozen, for speed: each transaction creates several
class Size:
    """The size of an inventory, or the difference that a change makes (negative if it shrinks).

    ``items`` is the number of stacks and instanced items; ``bytes`` is their approximate size in
    the database. The size of an inventory is stored, because computing it from the items
    would take too long.
    """

    items: int = 0
    bytes: int = 0

    def __add__(self, change: Size) -> Size:
        return Size(self.items + change.items, self.bytes + change.bytes)

    def __sub__(self, change: Size) -> Size:
        return Size(self.items - change.items, self.bytes - change.bytes)


NOTHING = Size()


@define  # not frozen: creating a frozen object takes twice as long
class Stacked:
    """A stack of items of one kind; ``extra`` is the JSON of unknown keys, returned unchanged."""

    catalog_id: str
    quantity: int
    extra: bytes | None = None


@frozen
class Instance:
    """An instanced item, which has its own version; ``body`` is its JSON as sent."""

    instance_id: str
    catalog_id: str
    version: int | None
    stateless: bool
    body: bytes = field(repr=False)

    @property
    def size(self) -> Size:
        """Return how much the item adds to its character's inventory size."""
        return Size(1, ROW + len(self.body))


@frozen
class Removal:
    """A request to remove an instanced item; fails if a newer version is stored."""

    instance_id: str
    version: int | None

    def is_outdated(self, held: Instance) -> bool:
        """Return whether this removal is outdated: the stored item ``held`` has a newer version."""
        if self.version is None or held.version is None:
            return False
        return self.version < held.version


@define  # not frozen: creating a frozen object takes twice as long
class Transaction:
    """A change of one character's inventory.

    ``added`` and ``removed`` map catalogue ids to quantities. ``extras`` maps the catalogue id of
    an added stack to JSON: the stack's keys that the server does not know. ``answer`` makes the
    reply from the final totals of the stacks; the reply is stored for repeats of the transaction.
    If ``transaction_id`` is None, repeats cannot be recognised.
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
        """The ids of the affected stacks: the ids in ``added``, then further ids in ``removed``."""
        return list({**self.added, **self.removed})

    @property
    def instance_ids(self) -> list[str]:
        """The ids of the affected instanced items, without duplicates."""
        ids = [removal.instance_id for removal in self.remove]
        ids += [item.instance_id for item in (*self.save, *self.add)]
        return list(dict.fromkeys(ids))


def stack_bytes(catalog_id: str, extra: bytes | None) -> int:
    """Return how many bytes a stack adds to its character's inventory size."""
    return ROW + len(catalog_id.encode()) + len(extra or b"")


def transaction_id(sent: str | None) -> str | None:
    """Return the id by which repeats are recognised, or None for an empty or zero id.

    A zero id consists only of ``0`` and ``-``. A long id is replaced by its hash.
    """
    if sent is None or not sent.strip("0-"):
        return None
    return sent if len(sent) <= 64 and "\0" not in sent else sha256(sent.encode()).hexdigest()


def source_of(sent: str | None) -> str:
    """Return ``source`` as the item log stores it: shortened, and without NUL."""
    return (sent or "")[:MAX_SOURCE].replace("\0", "")
