"""The one place where the machine's time and chance are read.

Ids, random numbers, epoch seconds and timers' seconds come from here, so that a simulation of a
whole host (``simulation``) can put its own in place and get the same run from the same seed.
A contract test finds code that asks the machine by itself.
"""

from __future__ import annotations

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
    """Where time and chance come from; by default the machine."""

    epoch: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    elapsed: Callable[[], float] = time.perf_counter
    random_hex: Callable[[int], str] = secrets.token_hex
    uuid4: Callable[[], uuid.UUID] = uuid.uuid4
    below: Callable[[int], int] = secrets.randbelow
    fraction: Callable[[], float] = random.random  # no secret, and asks the kernel for nothing
    generator: Callable[[], random.Random] = random.Random


_system = System()


def system() -> System:
    """The present source; what is asked often keeps its functions."""
    return _system


@contextmanager
def owned(other: System) -> Iterator[None]:
    """``other`` in place of the machine, for a simulation."""
    global _system
    before, _system = _system, other
    try:
        yield
    finally:
        _system = before


def epoch() -> float:
    """Epoch seconds by the machine's clock, which may jump."""
    return _system.epoch()


def elapsed() -> float:
    """Seconds for measuring how long something took."""
    return _system.elapsed()


def token_hex(count: int) -> str:
    """``count`` unpredictable bytes as lowercase hex."""
    return _system.random_hex(count)


def uuid4() -> uuid.UUID:
    """A random UUID; in a simulation one of its seed."""
    return _system.uuid4()


def choice(among: Sequence[T]) -> T:
    """One of ``among``, unpredictable to others; in a simulation by its seed."""
    return among[_system.below(len(among))]


def generator() -> random.Random:
    """A generator of random numbers that are no secrets."""
    return _system.generator()
