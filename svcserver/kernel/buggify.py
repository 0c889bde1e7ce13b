"""Named points at which a simulation may make something rare happen.

    if buggify("upstream: a kept connection is dead"):
        ...

Outside of a simulation the answer is always no, and the question is one comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Happens = Callable[[str], bool]

_happens: Happens | None = None


def buggify(name: str) -> bool:
    """Whether the rare thing of this name shall happen now."""
    return _happens is not None and _happens(name)


@contextmanager
def rare_things(happens: Happens) -> Iterator[None]:
    """Ask ``happens`` at every point, for as long as the context lasts."""
    global _happens
    before, _happens = _happens, happens
    try:
        yield
    finally:
        _happens = before
