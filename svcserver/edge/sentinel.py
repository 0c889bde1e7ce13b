"""Notices at once that an upstream ends, by a connection over which nothing is ever sent.

A service that stops closes such a connection first, and still answers on the others
(``web/serving.py``). So the edge closes its idle ones itself, and no request crosses
with their end: of one that does nobody could say whether it was carried out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

log = Logger()

RENEW_S = 20.0  # less than any service of ours keeps a connection without a request
AGAIN_S = 0.25  # between two attempts
PATIENCE_S = 5.0


class Idle(Protocol):
    """A connection that carries nothing; its end is the news."""

    ended: Callable[[], None] | None = None

    def dataReceived(self, data: bytes) -> None:
        """Ignore it: nothing was asked."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.ended is not None:
            self.ended()


@define(eq=False, slots=False)
class Sentinel(Service):
    """Calls ``lost()`` when the upstream ends, and ``found()`` when it takes connections again.

    ``connect(factory)`` opens a connection, as an endpoint's does.
    """

    clock: IReactorTime
    connect: Callable[[Any], Deferred[Any]]
    lost: Callable[[], None]
    found: Callable[[], None] = lambda: None
    _held: Any = field(default=None, init=False)
    _next: Any = field(default=None, init=False)
    _opening: Deferred[Any] | None = field(default=None, init=False)

    def startService(self) -> None:
        Service.startService(self)
        self._open()

    def stopService(self) -> None:
        Service.stopService(self)
        if self._next is not None:
            self._next.cancel()
            self._next = None
        opening, self._opening = self._opening, None
        if opening is not None:
            opening.cancel()
        self._leave()

    def _open(self) -> None:
        self._next = None
        opening = self._opening = self.connect(Factory.forProtocol(Idle))
        opening.addTimeout(PATIENCE_S, self.clock)
        opening.addCallbacks(self._opened, self._failed)
        opening.addErrback(self._broken)

    def _opened(self, connection: Idle) -> None:
        self._opening = None
        before, self._held = self._held, connection
        connection.ended = self._ended
        _close(before)
        if before is None:
            self.found()
        self._open_in(RENEW_S)

    def _failed(self, failure: Failure) -> None:
        self._opening = None
        if not self.running or failure.check(CancelledError):
            return
        if self._held is not None:  # the port is closed, but its connections are not yet
            self._leave()
            self.lost()
        self._open_in(AGAIN_S)

    def _broken(self, failure: Failure) -> None:
        log.failure("the watch over an upstream failed", failure)
        self._open_in(RENEW_S)

    def _ended(self) -> None:
        self._held = None
        if not self.running:
            return
        self.lost()
        if self._opening is None:
            if self._next is not None:
                self._next.cancel()
            self._open_in(0)

    def _open_in(self, seconds: float) -> None:
        if self.running:
            self._next = self.clock.callLater(seconds, self._open)

    def _leave(self) -> None:
        held, self._held = self._held, None
        _close(held)


def _close(connection: Idle | None) -> None:
    if connection is not None:
        connection.ended = None
        transport: Any = connection.transport
        transport.abortConnection()
