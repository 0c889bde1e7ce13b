"""Makes the ``Board`` that LIVE_URL names; features know only the protocol."""

from __future__ import annotations

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

from svcserver.board.address import Address
from svcserver.board.authority import authorities
from svcserver.board.board import Board
from svcserver.board.memory import MemoryBoard
from svcserver.kernel.secrets import derived_key

log = Logger()

# Carries the memory board's entries over a restart: a file written at a clean stop.
# The next start reads it if it is seconds old, and deletes it in any case. So after a crash, or a
# long pause, live state begins empty, as it did before there was this file.
FILE = "live-state.json"
FORM = 1
FRESH_S = 60.0
MOST_BYTES = 256 * 1024 * 1024
HEAD_BYTES = 1024
POSIX = os.name == "posix"
ONLY_A_FILE = os.O_NOFOLLOW | os.O_NONBLOCK if POSIX else 0  # no link, and no pipe to wait for


class Unusable(Exception):
    """The file cannot be used; says why."""


@define(eq=False, slots=False)
class Snapshot(Service):
    """Writes the board's entries when the service stops; ``load`` reads them."""

    board: MemoryBoard
    wall_clock: Callable[[], float]
    path: Path

    def load(self) -> None:
        """Put the entries of the last stop onto the board, if it was just now."""
        try:
            data = _content(self.path)
        except FileNotFoundError:
            return
        except (OSError, Unusable) as why:
            reason = getattr(why, "strerror", None) or str(why)
            log.warn("{path} is not read: {why}", path=str(self.path), why=reason)
            return
        finally:
            with suppress(OSError):
                self.path.unlink()
        try:
            age, kinds = _read(data, self.wall_clock())
        except Unusable as why:
            log.info("live state begins empty: {path} {why}", path=str(self.path), why=str(why))
            return
        self.board.restore(kinds)
        log.info("live state of {age:.0f} s ago was read", age=age)

    def stopService(self) -> None:
        Service.stopService(self)
        fresh = self.path.with_suffix(".new")
        try:
            data = _written(self.board.saved(), self.wall_clock())
            if len(data) > MOST_BYTES + HEAD_BYTES:
                raise Unusable(f"would have {len(data)} bytes")
            fresh.unlink(missing_ok=True)  # somebody may have left one that others can read
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            fresh.replace(self.path)
        except (OSError, Unusable) as why:
            reason = getattr(why, "strerror", None) or str(why)
            log.warn("live state is lost: {path} {why}", path=str(self.path), why=reason)


def _content(path: Path) -> bytes:
    """The file's bytes; raises OSError, or Unusable where somebody else may have written it."""
    handle = os.open(path, os.O_RDONLY | ONLY_A_FILE)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or (POSIX and found.st_uid != os.geteuid()):
            raise Unusable("is no file of ours")
        if POSIX and found.st_mode & 0o022:
            raise Unusable("can be written by others")
        data = file.read(MOST_BYTES + HEAD_BYTES + 1)
    if len(data) > MOST_BYTES + HEAD_BYTES:
        raise Unusable("is too large")
    return data


def _written(kinds: dict[str, list[Any]], now: float) -> bytes:
    body = orjson.dumps(kinds)
    head = {"form": FORM, "at": now, "sha256": hashlib.sha256(body).hexdigest()}
    return orjson.dumps(head) + b"\n" + body


def _read(data: bytes, now: float) -> tuple[float, dict[str, list[Any]]]:
    """The age in seconds and the entries; raises Unusable."""
    first, _, body = data.partition(b"\n")
    try:
        head = orjson.loads(first)
        form, at, wanted = head["form"], float(head["at"]), head["sha256"]
    except (ValueError, KeyError, TypeError):
        raise Unusable("is torn") from None
    if form != FORM:
        raise Unusable("is of another version")
    if hashlib.sha256(body).hexdigest() != wanted:
        raise Unusable("is torn")
    if not -FRESH_S <= now - at <= FRESH_S:
        raise Unusable("is too old")
    kinds = orjson.loads(body)
    if not isinstance(kinds, dict):
        raise Unusable("is torn")
    return now - at, kinds


IN_MEMORY = "memory:"
PURPOSE = b"svc board 1"  # what the key of the entries is derived for


@frozen
class LiveUrl:
    """LIVE_URL: where live state is kept; as text without the password."""

    _text: str = field(repr=False)

    def __str__(self) -> str:
        start, at, rest = self._text.rpartition("@")
        scheme, _, secret = start.partition("//")
        return f"{scheme}//{secret.partition(':')[0]}:***@{rest}" if at else rest

    @property
    def in_memory(self) -> bool:
        """Whether each process has live state of its own."""
        return self._text == IN_MEMORY

    @property
    def address(self) -> Address:
        """Of the engine, where there is one."""
        return Address.read(self._text)

    def board(
        self,
        wall_clock: Callable[[], float],
        reactor: Any,
        folder: Path | None = None,
        secret: str = "",
    ) -> tuple[Board, tuple[Any, ...]]:
        """The board, and what must run for it.

        ``wall_clock`` is for one without a clock of its own, ``folder`` where it may outlast a
        restart. ``secret``: what this host has and an engine has not, by which entries are sealed.
        """
        if self.in_memory:
            board = MemoryBoard(wall_clock)
            if folder is None:
                return board, ()
            snapshot = Snapshot(board, wall_clock, folder.absolute() / FILE)
            snapshot.load()
            return board, (snapshot,)
        from svcserver.board.engine import RemoteEngine  # memory needs none of it
        from svcserver.board.seal import Seal
        from svcserver.board.valkey import ValkeyBoard

        engine = RemoteEngine(reactor, self.address)
        return ValkeyBoard(engine, seal=Seal(derived_key(secret, PURPOSE))), (engine,)


def live_url(text: str) -> LiveUrl:
    """Read LIVE_URL: ``memory:`` or the address of a Valkey; raises ValueError."""
    url = text.strip()
    if url != IN_MEMORY and (ca := Address.read(url).ca) is not None:
        authorities(ca)
    return LiveUrl(url)
