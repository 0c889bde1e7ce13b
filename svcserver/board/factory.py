"""Makes the ``Board`` that LIVE_URL names; features know only the protocol."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import field, frozen

from svcserver.board.address import Address
from svcserver.board.authority import authorities
from svcserver.board.board import Board
from svcserver.board.memory import MemoryBoard
from svcserver.board.snapshot import FILE, Snapshot
from svcserver.kernel.secrets import derived_key

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
