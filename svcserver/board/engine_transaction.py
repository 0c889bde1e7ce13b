"""A transaction on an external live-state engine, and the entries that it has loaded."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

from attrs import define, field, frozen
from twisted.logger import Logger

from svcserver.board.board import BoardTransaction, Key
from svcserver.board.kinds import Kind
from svcserver.board.scripts import MOST_BYTES, STAMP
from svcserver.kernel.secrets import constant_time_equal
from svcserver.kernel.throttle import Throttle

T = TypeVar("T")
log = Logger()
PREFIX = "svc:entry:"
PHANTOMS = 64  # missing entries after which a run is stopped: it must be repeated anyway
KEPT_BYTES = 4096  # larger entries are decoded each time
TAG = 16  # bytes


@frozen
class Seal:
    """The keyed hash that proves that this host wrote an entry.

    All workers of the host have the key; the engine does not.
    """

    key: bytes = field(repr=False)

    def close(self, name: bytes, stamp: bytes, value: bytes) -> bytes:
        """Return the entry's hash followed by its value."""
        return self._tag(name, stamp, value) + value

    def open(self, name: bytes, stamp: bytes, sealed: bytes) -> bytes:
        """Return the value; raises ValueError if this host did not write it under this name."""
        value = sealed[TAG:]
        if not constant_time_equal(self._tag(name, stamp, value), sealed[:TAG]):
            raise ValueError("the entry was not written by this host")
        return value

    def _tag(self, name: bytes, stamp: bytes, value: bytes) -> bytes:
        entry = b"%d %b%b%b" % (len(name), name, stamp, value)
        return blake2b(entry, key=self.key, digest_size=TAG).digest()  # half the time of an HMAC


class NotLoaded(BaseException):
    """The exception that stops ``work`` after it has read many entries that are not loaded yet.

    It is not a subclass of ``Exception``, so that an ``except Exception`` in ``work`` does not
    catch it.
    """


@define
class Loaded:
    """The data that one attempt of a transaction has loaded from the live-state engine."""

    now: float
    entries: dict[Key, bytes | None] = field(factory=dict)  # with their stamps
    lists: dict[Kind[Any], list[tuple[str, bytes]]] = field(factory=dict)
    counts: dict[Kind[Any], int] = field(factory=dict)
    loads: int = 0


@define
class MissingData:
    """The keys, lists and counts that a transaction needed but had not loaded."""

    entries: dict[Key, None] = field(factory=dict)
    lists: dict[Kind[Any], None] = field(factory=dict)
    counts: dict[Kind[Any], None] = field(factory=dict)

    def __bool__(self) -> bool:
        return bool(self.entries or self.lists or self.counts)


def name_of(kind: Kind[Any], key: str) -> bytes:
    """Return the name of the Redis key under which an entry is stored."""
    return f"{PREFIX}{kind.name}:{key}".encode("utf-8", "surrogatepass")


@define
class Values:
    """A cache of decoded values. A key includes the entry's stamp, which each write replaces."""

    most: int
    seal: Seal
    seconds: Callable[[], float]
    _known: dict[tuple[Key, bytes], Any] = field(factory=dict, init=False)
    _warned: Throttle = field(factory=Throttle, init=False)

    def decode(self, at: tuple[Kind[T], str], data: bytes) -> T | None:
        """Return an entry's value, or None if the entry is damaged and so counts as absent."""
        stamped = at, data[:STAMP]
        if stamped in self._known:
            known: T = self._known[stamped]
            return known
        kind, key = at
        try:
            value = self._decode(kind, key, data)
        except (
            Exception
        ) as error:  # of any kind: otherwise all reads would fail until the entry expires
            if self._warned.due(kind.name, self.seconds()):
                text = (
                    "a {kind} entry on the live-state server is ignored, because the entry is "
                    "damaged or from another host: {why}"
                )
                log.warn(text, kind=kind.name, why=type(error).__name__)
            return None
        if len(data) < KEPT_BYTES:
            if len(self._known) >= self.most:
                self._known.clear()  # rare, and cheaper than an LRU order
            self._known[stamped] = value
        return value

    def _decode(self, kind: Kind[T], key: str, data: bytes) -> T:
        if len(data) > MOST_BYTES:
            raise ValueError("it is too large")
        stamp, value = data[:STAMP], data[STAMP:]
        if kind.sealed:
            value = self.seal.open(name_of(kind, key), stamp, value)
        return kind.decode(value)


class EngineTransaction(BoardTransaction):
    """A ``BoardTransaction`` on loaded entries.

    A read of an entry that is not loaded returns None, and adds the entry's key to ``missing``.
    """

    __slots__ = ("_loaded", "_values", "missing", "read")

    def __init__(self, loaded: Loaded, values: Values, ids: list[str]) -> None:
        super().__init__(loaded.now, ids)
        self.read: dict[Key, None] = {}  # in reading order
        self.missing = MissingData()
        self._loaded, self._values = loaded, values

    def get(self, kind: Kind[T], key: str) -> T | None:
        at = kind, key
        if at in self.written:
            written: T | None = self.written[at]
            return written
        self.read[at] = None
        if at not in self._loaded.entries:
            self.missing.entries[at] = None
            if len(self.missing.entries) >= PHANTOMS:
                raise NotLoaded
            return None
        data = self._loaded.entries[at]
        return None if data is None else self._values.decode(at, data)

    def each(self, kind: Kind[T]) -> list[tuple[str, T]]:
        kind.check_listed()
        ours = self._own_writes(kind)
        if kind not in self._loaded.lists:
            self.missing.lists[kind] = None
            return []
        stored = [
            (key, self._values.decode((kind, key), data))
            for key, data in self._loaded.lists[kind]
            if key not in ours
        ]
        return [(key, value) for key, value in [*stored, *ours.items()] if value is not None]

    def count(self, kind: Kind[Any]) -> int:
        kind.check_listed()
        if self._own_writes(kind):
            return len(self.each(kind))
        if kind not in self._loaded.counts:
            self.missing.counts[kind] = None
            return 0
        return self._loaded.counts[kind]
