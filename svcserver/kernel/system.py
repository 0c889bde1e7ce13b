"""The single source of the machine's time and randomness.

Ids, random numbers, the time of day and the monotonic time of timers come from this module. A
simulation of a whole host (``simulation``) replaces the source, so that the same seed gives the
same run. A contract test finds code that bypasses this module.
"""

import random
import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from attrs import frozen

T = TypeVar("T")


@frozen
class System:
    """A source of time and randomness; the default source is the machine."""

    epoch: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    elapsed: Callable[[], float] = time.perf_counter
    random_hex: Callable[[int], str] = secrets.token_hex
    uuid4: Callable[[], uuid.UUID] = uuid.uuid4
    below: Callable[[int], int] = secrets.randbelow
    fraction: Callable[[], float] = random.random  # not secret; needs no system call
    generator: Callable[[], random.Random] = random.Random


_system = System()


def system() -> System:
    """Return the current source of time and randomness."""
    return _system


@contextmanager
def owned(source: System) -> Iterator[None]:
    """Use ``source`` instead of the machine's time and randomness during the block."""
    global _system
    before, _system = _system, source
    try:
        yield
    finally:
        _system = before


def epoch() -> float:
    """Return epoch seconds from the machine's clock, which may jump."""
    return _system.epoch()


def elapsed() -> float:
    """Return the seconds of a monotonic clock, to measure durations."""
    return _system.elapsed()


def token_hex(count: int) -> str:
    """Return ``count`` unpredictable bytes as lowercase hex."""
    return _system.random_hex(count)


def uuid4() -> uuid.UUID:
    """Return a random UUID; in a simulation it depends on the seed."""
    return _system.uuid4()


def choice(among: Sequence[T]) -> T:
    """Return an unpredictable element of ``among``; in a simulation it depends on the seed."""
    return among[_system.below(len(among))]


def generator() -> random.Random:
    """Return a generator of random numbers that are not secret."""
    return _system.generator()
