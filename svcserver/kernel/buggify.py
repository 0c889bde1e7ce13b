"""Named points at which a simulation may cause a rare event.

    if buggify("upstream: a kept connection is dead"):
        ...

Outside of a simulation the answer is always no, and costs one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Happens = Callable[[str], bool]

_happens: Happens | None = None


def buggify(name: str) -> bool:
    """Return whether the rare event of this name happens now."""
    return _happens is not None and _happens(name)


@contextmanager
def rare_things(happens: Happens) -> Iterator[None]:
    """Let ``happens`` decide at every point, for as long as the context lasts."""
    global _happens
    before, _happens = _happens, happens
    try:
        yield
    finally:
        _happens = before
