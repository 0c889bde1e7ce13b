"""The kinds of board entries."""

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
    """A kind of board entries, whose values have the same type; create each kind only once.

    Values are immutable: frozen attrs classes, tuples, frozensets, strings and numbers. ``shape``
    is the type of the values; an external engine needs it to store values as JSON.

    ``lives_s`` is an entry's time to live in seconds, which restarts with each write. If
    ``kept_by_reading`` is true, each read restarts it too. If a ``MemoryBoard`` has more than
    ``most`` entries of a kind, it drops the entry that expires first. An external engine has one
    limit for all kinds (``maxmemory``).

    ``compared=False`` is for heartbeats, which are written all the time. If another process writes
    such an entry after a transaction has read it, the transaction is not repeated.

    ``sealed`` makes an external engine store each entry with a keyed hash. An entry that someone
    else wrote, or copied from another key, is ignored. Use False only if a forged entry is
    harmless, and give the reason in a comment. A hash cannot reveal that an entry was deleted, or
    replaced by an older entry. Data that need protection against this belong in the database.

    ``listed=True`` lets ``BoardTransaction.each`` and ``BoardTransaction.count`` work for this
    kind. A listed kind cannot have ``kept_by_reading``, because the list only records writes.
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
            raise TypeError(
                f"{self.name}: listed=True and kept_by_reading=True cannot be combined. A read "
                "would extend an entry's lifetime, but the list would keep the old expiry time."
            )

    def check_listed(self) -> None:
        """Raise TypeError if this kind does not have ``listed=True``."""
        if not self.listed:
            raise TypeError(
                f"each() and count() cannot read entries of the kind {self.name}: declare this "
                "kind with listed=True"
            )

    def clash(self) -> ValueError:
        """Return the error for two kinds of entries that have the same name."""
        return ValueError(f"two kinds of entries are called {self.name}")

    def encode(self, value: T) -> bytes:
        """Return ``value`` as JSON; NaN and infinity become null."""
        return encode(value, self.shape)

    def decode(self, data: bytes) -> T:
        return decode(data, self.shape)


def encode(value: Any, shape: Any) -> bytes:
    """Return ``value`` as JSON, encoded according to the type ``shape``."""
    return orjson.dumps(_converter().unstructure(value, shape))


def decode(data: bytes, shape: type[T]) -> T:
    """Return the decoded value; raises ValueError or cattrs' errors."""
    value: T = _converter().structure(orjson.loads(data), shape)
    return value


@cache
def _converter() -> Any:
    from cattrs.preconf.orjson import make_converter  # not needed by a memory board

    # sorted sets: every process writes the same value as the same bytes
    return make_converter(unstruct_collection_overrides={Set: sorted})
