"""Readers for the reactor: a pidfd or a pipe, and polling where pidfds are refused."""

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
    """A descriptor that the reactor watches; ``ready`` is called when it is readable.

    ``lost`` is called when it is at its end, with nothing to read.
    """

    reactor: Any
    descriptor: int
    ready: Callable[[], object]
    lost: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Let the reactor watch it."""
        self.reactor.addReader(self)

    def fileno(self) -> int:
        """The descriptor that the reactor waits on."""
        return self.descriptor

    def logPrefix(self) -> str:
        """What the reactor's log calls it."""
        return "game server"

    def doRead(self) -> None:
        """It became readable: data, or the end of the process."""
        self.ready()

    def connectionLost(self, reason: Failure) -> None:
        """Called by the reactor when it gives the descriptor up."""
        self.close()
        self.lost()

    def close(self) -> None:
        """Watch no more, and close it."""
        if self.descriptor >= 0:
            self.reactor.removeReader(self)
            handle, self.descriptor = self.descriptor, -1
            os.close(handle)


@define(eq=False)
class Polled:
    """A process without a pidfd; ``ended`` is called once ``is_running`` returns False."""

    reactor: Any
    is_running: Callable[[], bool]
    ended: Callable[[], None]
    _timer: Any = None

    def begin(self) -> None:
        """Look again in ``POLL_S`` seconds."""
        self._timer = self.reactor.callLater(POLL_S, self._look)

    def _look(self) -> None:
        if self.is_running():
            self.begin()
        else:
            self.ended()

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
