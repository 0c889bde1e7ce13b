"""Watchers for the reactor: of a pidfd or a pipe, and polling where pidfds are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from attrs import define
from twisted.internet.interfaces import IReadDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

POLL_S = 1.0


@implementer(IReadDescriptor)
@define(eq=False)
class Watched:
    """A descriptor that the reactor watches; calls ``ready`` when it is readable.

    ``lost`` is called when it is at its end, with nothing to read.
    """

    reactor: Any
    descriptor: int
    ready: Callable[[], object]
    closed: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Start watching."""
        self.reactor.addReader(self)

    def fileno(self) -> int:
        return self.descriptor

    def logPrefix(self) -> str:
        return "game server"

    def doRead(self) -> None:
        self.ready()

    def connectionLost(self, reason: Failure) -> None:
        self.close()
        self.closed()

    def close(self) -> None:
        """Stop watching, and close the descriptor."""
        if self.descriptor >= 0:
            self.reactor.removeReader(self)
            handle, self.descriptor = self.descriptor, -1
            os.close(handle)


@define(eq=False)
class Polled:
    """A process without a pidfd; calls ``ended`` once ``is_running`` returns False."""

    reactor: Any
    is_running: Callable[[], bool]
    ended: Callable[[], None]
    _timer: Any = None

    def begin(self) -> None:
        """Check again in ``POLL_S`` seconds."""
        self._timer = self.reactor.callLater(POLL_S, self._check)

    def _check(self) -> None:
        if self.is_running():
            self.begin()
        else:
            self.ended()

    def close(self) -> None:
        """Stop polling."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
