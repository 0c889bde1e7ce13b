"""The transaction of an act on an external engine, and the entries loaded for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from attrs import define, field
from twisted.logger import Logger

from svcserver.board.board import Key
from svcserver.board.kinds import Kind
from svcserver.board.open_transaction import OpenTransaction
from svcserver.board.scripts import MOST_BYTES, STAMP
from svcserver.board.seal import Seal
from svcserver.kernel.throttle import Throttle

T = TypeVar("T")
log = Logger()
PREFIX = "svc:entry:"
PHANTOMS = 64  # entries taken as absent in a run whose result does not count


class NotLoaded(BaseException):
    """The work goes on and on in a run that does not count.

    No ``Exception``, so that no work takes it for a refusal of its own.
    """


@define
class Loaded:
    """What has been read of the engine for one try of an act."""

    now: float
    entries: dict[Key, bytes | None] = field(factory=dict)  # with their stamps
    lists: dict[Kind[Any], list[tuple[str, bytes]]] = field(factory=dict)
    counts: dict[Kind[Any], int] = field(factory=dict)
    loads: int = 0


@define
class Missing:
    """What a run has asked for and nobody has loaded, in that order."""

    entries: dict[Key, None] = field(factory=dict)
    lists: dict[Kind[Any], None] = field(factory=dict)
    counts: dict[Kind[Any], None] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.entries or self.lists or self.counts)


def name_of(kind: Kind[Any], key: str) -> bytes:
    """The entry's name on the engine."""
    return f"{PREFIX}{kind.name}:{key}".encode("utf-8", "surrogatepass")


@define
class Values:
    """Decoded values by the stamp of their entry, so that one that did not change costs once."""

    most: int
    seal: Seal
    seconds: Callable[[], float]
    _known: dict[tuple[Key, bytes], Any] = field(factory=dict, init=False)
    _said: Throttle = field(factory=Throttle, init=False)

    def of(self, at: tuple[Kind[T], str], data: bytes) -> T | None:
        """The value that ``data`` holds; None where it holds none, which counts as absent.

        Values read lately are known by their key and stamp.
        """
        known_as = at, data[:STAMP]
        if known_as in self._known:
            known: T = self._known[known_as]
            return known
        kind, key = at
        try:
            value = self._read(kind, key, data)
        except Exception as why:  # whatever it is: to fail would be to fail for as long as it lives
            if self._said.due(kind.name, self.seconds()):
                text = "an entry called {kind} on the engine of LIVE_URL is damaged or not of this "
                text += "host, and is left out: {why}"
                log.warn(text, kind=kind.name, why=type(why).__name__)
            return None
        if len(data) < KEPT_BYTES:
            if len(self._known) >= self.most:
                self._known.clear()  # rare, and cheaper than an order at every reading
            self._known[known_as] = value
        return value

    def _read(self, kind: Kind[T], key: str, data: bytes) -> T:
        if len(data) > MOST_BYTES:
            raise ValueError("it is too large")
        stamp, value = data[:STAMP], data[STAMP:]
        if kind.sealed:
            value = self.seal.open(name_of(kind, key), stamp, value)
        return kind.decode(value)


KEPT_BYTES = 4096  # larger entries are decoded each time


class EngineTransaction(OpenTransaction):
    """A ``BoardTransaction`` on loaded entries.

    An entry that is not loaded is noted as missing and treated as absent.
    """

    __slots__ = ("_loaded", "_values", "missing", "read")

    def __init__(self, loaded: Loaded, values: Values, ids: list[str]) -> None:
        super().__init__(loaded.now, ids)
        self.read: dict[Key, None] = {}  # in the order of the reading
        self.missing = Missing()
        self._loaded, self._values = loaded, values

    def get(self, kind: Kind[T], key: str) -> T | None:
        at = kind, key
        if at in self.written:
            found: T | None = self.written[at]
            return found
        self.read[at] = None
        if at not in self._loaded.entries:
            self.missing.entries[at] = None
            if len(self.missing.entries) >= PHANTOMS:
                raise NotLoaded
            return None
        data = self._loaded.entries[at]
        return None if data is None else self._values.of(at, data)

    def each(self, kind: Kind[T]) -> list[tuple[str, T]]:
        kind.check_listed()
        ours = self._ours(kind)
        if kind not in self._loaded.lists:
            self.missing.lists[kind] = None
            return []
        there = self._loaded.lists[kind]
        found = [
            (key, self._values.of((kind, key), data)) for key, data in there if key not in ours
        ]
        return [(key, value) for key, value in [*found, *ours.items()] if value is not None]

    def count(self, kind: Kind[Any]) -> int:
        kind.check_listed()
        if self._ours(kind):
            return len(self.each(kind))
        if kind not in self._loaded.counts:
            self.missing.counts[kind] = None
            return 0
        return self._loaded.counts[kind]
