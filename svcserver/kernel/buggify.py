"""Named points in the code at which a simulation may cause a rare event.

    if buggify("upstream: a kept connection is dead"):
        ...

Outside a simulation, ``buggify`` always returns False, at the cost of one comparison.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Happens = Callable[[str], bool]

_happens: Happens | None = None


def buggify(name: str) -> bool:
    """Return whether the rare event with this name should happen now."""
    return _happens is not None and _happens(name)


@contextmanager
def rare_things(happens: Happens) -> Iterator[None]:
    """Let ``happens`` decide, during the block, whether each ``buggify`` event occurs."""
    global _happens
    before, _happens = _happens, happens
    try:
        yield
    finally:
        _happens = before
