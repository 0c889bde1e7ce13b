"""The ``Board`` for LIVE_URL, and the snapshot of a ``MemoryBoard``."""

import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from attrs import define, field, frozen
from twisted.application.service import Service
from twisted.logger import Logger

from svcserver.board.address import EngineAddress, authorities
from svcserver.board.board import Board
from svcserver.board.memory import MemoryBoard
from svcserver.kernel.secrets import derived_key

log = Logger()

# A clean stop writes the memory board's entries to this file. The next start reads it if it is
# recent, and always deletes it, so that live state is empty after a crash or a long pause.
FILE = "live-state.json"
FORM = 1
FRESH_S = 60.0
MOST_BYTES = 256 * 1024 * 1024
HEAD_BYTES = 1024
POSIX = os.name == "posix"
ONLY_A_FILE = os.O_NOFOLLOW | os.O_NONBLOCK if POSIX else 0  # never a link or a pipe


class Unusable(Exception):
    """The error for a snapshot file that cannot be used; its text says why."""


@define(eq=False, slots=False)
class BoardSnapshot(Service):
    """The service that saves the board's entries to a file on stop; ``load`` reads the file."""

    board: MemoryBoard
    wall_clock: Callable[[], float]
    path: Path

    def load(self) -> None:
        """Load the entries from the snapshot file if it is recent; always delete the file."""
        try:
            data = _content(self.path)
        except FileNotFoundError:
            return
        except (OSError, Unusable) as error:
            log.warn(
                "the saved live state was not loaded, because {path} {why}",
                path=str(self.path),
                why=_reason(error, "cannot be read"),
            )
            return
        finally:
            with suppress(OSError):
                self.path.unlink()
        try:
            age, kinds = _read(data, self.wall_clock())
        except Unusable as error:
            log.info(
                "the saved live state was not loaded, because {path} {why}",
                path=str(self.path),
                why=str(error),
            )
            return
        self.board.restore(kinds)
        log.info("loaded the live state that was saved {age:.0f} s ago", age=age)

    def stopService(self) -> None:
        Service.stopService(self)
        fresh = self.path.with_suffix(".new")
        try:
            data = _written(self.board.saved(), self.wall_clock())
            if len(data) > MOST_BYTES + HEAD_BYTES:
                raise Unusable(f"would be too large ({len(data)} bytes)")
            fresh.unlink(missing_ok=True)  # an old file may be readable by others
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            fresh.replace(self.path)
        except (OSError, Unusable) as error:
            log.warn(
                "the live state was not saved, because {path} {why}",
                path=str(self.path),
                why=_reason(error, "cannot be written"),
            )


def _reason(error: Exception, failure: str) -> str:
    """Return the end of a sentence about the file; ``failure`` comes before a system error."""
    if isinstance(error, OSError):
        return f"{failure}: {error.strerror or error}"
    return str(error)


def _content(path: Path) -> bytes:
    """Return the file's bytes; raises OSError, or Unusable if the file is unsafe or too large."""
    handle = os.open(path, os.O_RDONLY | ONLY_A_FILE)
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or (POSIX and status.st_uid != os.geteuid()):
            raise Unusable("is not a regular file of this user")
        if POSIX and status.st_mode & 0o022:
            raise Unusable("is writable by others")
        data = file.read(MOST_BYTES + HEAD_BYTES + 1)
    if len(data) > MOST_BYTES + HEAD_BYTES:
        raise Unusable("is too large")
    return data


def _written(kinds: dict[str, list[Any]], now: float) -> bytes:
    body = orjson.dumps(kinds)
    head = {"form": FORM, "at": now, "sha256": hashlib.sha256(body).hexdigest()}
    return orjson.dumps(head) + b"\n" + body


def _read(data: bytes, now: float) -> tuple[float, dict[str, list[Any]]]:
    """Return the snapshot's age in seconds and its entries; raises Unusable."""
    first, _, body = data.partition(b"\n")
    try:
        head = orjson.loads(first)
        form, at, wanted = head["form"], float(head["at"]), head["sha256"]
    except (ValueError, KeyError, TypeError):
        raise Unusable("is damaged") from None
    if form != FORM:
        raise Unusable("was saved by another version")
    if hashlib.sha256(body).hexdigest() != wanted:
        raise Unusable("is damaged")
    if not -FRESH_S <= now - at <= FRESH_S:
        raise Unusable("is too old")
    kinds = orjson.loads(body)
    if not isinstance(kinds, dict):
        raise Unusable("is damaged")
    return now - at, kinds


IN_MEMORY = "memory:"
PURPOSE = b"svc board 1"  # of the key that signs entries


@frozen
class LiveUrl:
    """LIVE_URL, the address of live state; ``str()`` hides the password."""

    _text: str = field(repr=False)

    def __str__(self) -> str:
        start, at, rest = self._text.rpartition("@")
        scheme, _, secret = start.partition("//")
        return f"{scheme}//{secret.partition(':')[0]}:***@{rest}" if at else rest

    @property
    def in_memory(self) -> bool:
        """True if each process keeps live state in its own memory; False if an engine keeps it."""
        return self._text == IN_MEMORY

    @property
    def address(self) -> EngineAddress:
        return EngineAddress.parse(self._text)

    def board(
        self,
        wall_clock: Callable[[], float],
        reactor: Any,
        folder: Path | None = None,
        secret: str = "",
    ) -> tuple[Board, tuple[Any, ...]]:
        """Return the board and the services that it needs.

        ``wall_clock`` is the memory board's clock. ``folder`` is the directory for the memory
        board's snapshot. ``secret`` signs the entries if an external engine stores them.
        """
        if self.in_memory:
            board = MemoryBoard(wall_clock)
            if folder is None:
                return board, ()
            snapshot = BoardSnapshot(board, wall_clock, folder.absolute() / FILE)
            snapshot.load()
            return board, (snapshot,)
        from svcserver.board.engine import BoardEngine  # a memory board does not need it
        from svcserver.board.engine_transaction import Seal
        from svcserver.board.valkey import ValkeyBoard

        engine = BoardEngine(reactor, self.address)
        return ValkeyBoard(engine, seal=Seal(derived_key(secret, PURPOSE))), (engine,)


def live_url(text: str) -> LiveUrl:
    """Parse LIVE_URL, either ``memory:`` or a Valkey address; raises ValueError."""
    url = text.strip()
    if url != IN_MEMORY and (ca := EngineAddress.parse(url).ca) is not None:
        authorities(ca)
    return LiveUrl(url)
