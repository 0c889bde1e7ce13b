"""What is kept on the board: kinds of entries, each with the shape of its values and a bound."""

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
    """Entries of one shape, each under a key of text; made once, at module level or by a service.

    A value is never changed, only put anew: frozen attrs classes, tuples, frozensets, text and
    numbers. ``shape`` is its type, by which another engine writes and reads it as JSON.

    ``lives_s``: so long after it was put an entry is gone; with ``kept_by_reading`` so long after
    it was last put or read. ``most``: beyond so many the one that would end first gives way; that
    is for the board in memory, an engine has one bound for all (``maxmemory``).

    ``compared=False`` is for signs of life, which are put all the time: that another process put
    one after this act has read it does not make the act run again.

    ``sealed``: an engine elsewhere keeps each entry with a keyed hash, by which one that somebody
    else wrote there, or copied from another key, is no entry. False where a forged entry grants
    nobody anything; then say why. No hash helps against whoever deletes entries or puts an old one
    back, so what must withstand that belongs in the database.

    ``listed=True``: ``BoardTransaction.each`` and ``BoardTransaction.count`` know all of them. It
    does not go with ``kept_by_reading``: the list knows only when an entry was put.
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
        if self.listed and self.kept_by_reading:  # its list would not know that it lives on
            raise TypeError(f"entries called {self.name} cannot be both listed and kept by reading")

    def check_listed(self) -> None:
        """Raise TypeError for a kind whose entries are not known all together."""
        if not self.listed:
            raise TypeError(f"entries called {self.name} are not listed")

    def clash(self) -> ValueError:
        """The error where another kind has the same name."""
        return ValueError(f"two kinds of entries are called {self.name}")

    def encode(self, value: T) -> bytes:
        """As JSON. NaN and infinity have none: they would come back as None."""
        return encode(value, self.shape)

    def decode(self, data: bytes) -> T:
        """The value that ``encode`` made ``data`` of."""
        return decode(data, self.shape)


def encode(value: Any, shape: Any) -> bytes:
    """``value`` as JSON, by the types of its ``shape``."""
    return orjson.dumps(_converter().unstructure(value, shape))


def decode(data: bytes, shape: type[T]) -> T:
    """What ``encode`` was given; raises ValueError or cattrs' errors where it is none."""
    value: T = _converter().structure(orjson.loads(data), shape)
    return value


@cache
def _converter() -> Any:
    from cattrs.preconf.orjson import make_converter  # the memory board never needs it

    # sets in one order: two processes write the same value as the same bytes
    return make_converter(unstruct_collection_overrides={Set: sorted})
