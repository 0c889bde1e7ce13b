"""The kinds of entries on the board, each with the shape of its values and its bounds."""

from __future__ import annotations

from collections.abc import Set
from functools import cache
from typing import Any, Generic, TypeVar

import orjson
from attrs import field, frozen

T = TypeVar("T")

FOR_EVER = float("inf")
MOST = 100_000


@frozen(eq=False)
class Kind(Generic[T]):
    """Entries of one shape, each under a text key; created once, by a module or a service.

    Values are immutable: frozen attrs classes, tuples, frozensets, text and numbers. ``shape`` is
    their type, by which an external engine stores them as JSON.

    ``lives_s``: seconds after its last write, or with ``kept_by_reading`` its last read or write,
    when an entry expires. ``most``: the limit above which a memory board drops the entry that
    expires first. An external engine has one limit for all kinds (``maxmemory``).

    ``compared=False`` is for heartbeats, which are written all the time: another process's write
    after this transaction's read does not repeat the transaction.

    ``sealed``: an external engine stores each entry with a keyed hash, so that an entry which
    somebody else wrote or copied from another key is ignored. Use False only where a forged entry
    grants nothing, and say why. No hash protects against deleting an entry or restoring an old one,
    so data that must withstand that belongs in the database.

    ``listed=True``: ``BoardTransaction.each`` and ``BoardTransaction.count`` list all entries. It
    excludes ``kept_by_reading``, because the list only records writes.
    """

    name: str
    shape: type[T]
    lives_s: float = field(default=FOR_EVER, kw_only=True)
    most: int = field(default=MOST, kw_only=True)
    kept_by_reading: bool = field(default=False, kw_only=True)
    compared: bool = field(default=True, kw_only=True)
    listed: bool = field(default=False, kw_only=True)
    sealed: bool = field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.listed and self.kept_by_reading:
            raise TypeError(f"entries called {self.name} cannot be both listed and kept by reading")

    def check_listed(self) -> None:
        """Raise TypeError if the kind is not listed."""
        if not self.listed:
            raise TypeError(f"entries called {self.name} are not listed")

    def clash(self) -> ValueError:
        """Return the error for another kind with the same name."""
        return ValueError(f"two kinds of entries are called {self.name}")

    def encode(self, value: T) -> bytes:
        """Return ``value`` as JSON; NaN and infinity would come back as None."""
        return encode(value, self.shape)

    def decode(self, data: bytes) -> T:
        return decode(data, self.shape)


def encode(value: Any, shape: Any) -> bytes:
    """Return ``value`` as JSON, by the types of its ``shape``."""
    return orjson.dumps(_converter().unstructure(value, shape))


def decode(data: bytes, shape: type[T]) -> T:
    """Return the value that was encoded; raises ValueError or cattrs' errors."""
    value: T = _converter().structure(orjson.loads(data), shape)
    return value


@cache
def _converter() -> Any:
    from cattrs.preconf.orjson import make_converter  # a memory board never needs it

    # sorted sets: every process writes the same value as the same bytes
    return make_converter(unstruct_collection_overrides={Set: sorted})
