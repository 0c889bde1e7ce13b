"""One connection to a Valkey or Redis: commands are written once a reactor turn, replies parsed.

``hiredis`` reads the replies (RESP2). Whoever asks gets a Deferred; where the engine does not
answer for ``DEADLINE_S`` the connection is cut, and all who wait on it are told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import hiredis
from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

DEADLINE_S = 1.0
LOOK_S = 0.25  # between two looks for overdue replies
MOST_WAITING = 20_000  # commands without a reply; more are refused
MOST_BYTES = 64 << 20  # of one reply that is not complete yet

Argument = bytes | str | int


class ConnectionEnded(Exception):
    """The connection ended, or the engine took too long, before the reply came."""


class EngineError(Exception):
    """The engine's error reply, in its own words, which begin with a code such as NOSCRIPT.

    Also what the reader raises for bytes that are no RESP.
    """


def encoded(*arguments: Argument) -> bytes:
    """A command in the bytes in which it is sent (RESP)."""
    pack: Any = hiredis.pack_command  # its stub knows tuples of one
    packed: bytes = pack(arguments)
    return packed


class Wire(Protocol):
    """A connection. ``pushed`` is called with each message of a channel: its name and bytes."""

    def __init__(
        self,
        clock: IReactorTime,
        lost: Callable[[Wire], None],
        pushed: Callable[[bytes, bytes], None] | None = None,
    ) -> None:
        self._clock, self._lost, self._pushed = clock, lost, pushed
        self._reader = hiredis.Reader(protocolError=EngineError, replyError=EngineError)
        self._waiting: deque[tuple[float, Deferred[Any]]] = deque()
        self._unsent: list[bytes] = []
        self._unread = 0  # bytes since the last complete reply
        self._look: Any = None
        self._late = False  # the last look found a reply overdue
        self.up = False

    def connectionMade(self) -> None:
        transport: Any = self.transport
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        self.up = True
        self._look = self._clock.callLater(LOOK_S, self._overdue)

    def ask(self, *arguments: Argument) -> Deferred[Any]:
        """Send a command; fires with the reply, or fails with one of the above."""
        if not self.up or len(self._waiting) >= MOST_WAITING:
            return fail(ConnectionEnded("not connected" if not self.up else "too many wait"))
        done: Deferred[Any] = Deferred(_leave)
        self._waiting.append((self._clock.seconds(), done))
        self._unsent.append(encoded(*arguments))
        if len(self._unsent) == 1:
            self._clock.callLater(0, self._send)
        return done

    def cut(self) -> None:
        """Abort the connection to the engine; what was written may be lost."""
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()

    def dataReceived(self, data: bytes) -> None:
        self._unread += len(data)
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._unread = 0
                self._replied(reply)
        except EngineError:  # these bytes are no RESP
            self.cut()
        if self._unread > MOST_BYTES:
            self.cut()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.up = False
        if self._look is not None and self._look.active():
            self._look.cancel()
        waiting, self._waiting = self._waiting, deque()
        self._lost(self)
        for _, done in waiting:
            if not done.called:
                done.errback(ConnectionEnded(reason.getErrorMessage()))

    def _send(self) -> None:
        transport: Any = self.transport
        if self.up:
            transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def _replied(self, reply: Any) -> None:
        if self._pushed is not None and type(reply) is list and reply[0] == b"message":
            self._pushed(reply[1], reply[2])
            return
        if not self._waiting:
            self.cut()  # nobody has asked
            return
        _, done = self._waiting.popleft()
        if done.called:
            return
        if isinstance(reply, EngineError):
            done.errback(reply)
        else:
            done.callback(reply)

    def _overdue(self) -> None:
        self._look = self._clock.callLater(LOOK_S, self._overdue)
        late = bool(self._waiting) and self._clock.seconds() - self._waiting[0][0] > DEADLINE_S
        if late and self._late:  # at the first it may be our own process that was busy
            self.cut()
        self._late = late


def _leave(done: Deferred[Any]) -> None:
    """Who asked waits no more; the place in the order of replies stays."""
