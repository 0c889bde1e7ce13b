"""Makes the ``Board`` that LIVE_URL names; features know only the protocol."""

from __future__ import annotations

from collections.abc import Callable

from svcserver.board.memory import MemoryBoard

IN_MEMORY = "memory:"
_ENGINES = {IN_MEMORY: MemoryBoard}


def live_url(text: str) -> str:
    """LIVE_URL: where live state is kept."""
    url = text.strip()
    if url not in _ENGINES:
        raise ValueError(f"must be {IN_MEMORY}")
    return url


def board_for(url: str, now: Callable[[], float]) -> MemoryBoard:
    """The board that ``live_url`` has read; ``now`` is the clock of one without its own."""
    return _ENGINES[url](now)
