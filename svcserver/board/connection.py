"""A connection to Valkey or Redis, which sends queued commands once per reactor turn.

``hiredis`` parses the replies (RESP2). If the engine does not answer for ``DEADLINE_S``, the
connection is aborted and every pending command fails.
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
LOOK_S = 0.25  # between two checks for overdue replies
MOST_WAITING = 20_000  # unanswered commands; further commands fail
MOST_BYTES = 64 << 20  # of one incomplete reply

Argument = bytes | str | int


class ConnectionEnded(Exception):
    """The error for a command whose connection ended, or timed out, before the reply arrived."""


class EngineReplyError(Exception):
    """The error if the live-state engine replies with an error or with invalid RESP."""


def encoded(*arguments: Argument) -> bytes:
    """Return a command encoded as RESP."""
    pack: Any = hiredis.pack_command  # its type stub only accepts 1-tuples
    packed: bytes = pack(arguments)
    return packed


class EngineWire(Protocol):
    """One connection to the live-state engine, which is Valkey or Redis.

    ``pushed`` is called with the channel and the bytes of each published message.
    """

    def __init__(
        self,
        clock: IReactorTime,
        disconnected: Callable[[EngineWire], None],
        pushed: Callable[[bytes, bytes], None] | None = None,
    ) -> None:
        self._clock, self._disconnected, self._pushed = clock, disconnected, pushed
        self._reader = hiredis.Reader(protocolError=EngineReplyError, replyError=EngineReplyError)
        self._waiting: deque[tuple[float, Deferred[Any]]] = deque()
        self._unsent: list[bytes] = []
        self._unread = 0  # bytes since the last complete reply
        self._check: Any = None
        self._late = False  # a reply was overdue at the last check
        self.up = False

    def connectionMade(self) -> None:
        transport: Any = self.transport
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        self.up = True
        self._check = self._clock.callLater(LOOK_S, self._overdue)

    def send_command(self, *arguments: Argument) -> Deferred[Any]:
        """Send a command; the Deferred fires with the reply, or fails.

        The failure is a ConnectionEnded or an EngineReplyError.
        """
        if not self.up or len(self._waiting) >= MOST_WAITING:
            why = "too many commands wait" if self.up else "not connected"
            return fail(ConnectionEnded(why))
        done: Deferred[Any] = Deferred(_keep_place)
        self._waiting.append((self._clock.seconds(), done))
        self._unsent.append(encoded(*arguments))
        if len(self._unsent) == 1:
            self._clock.callLater(0, self._send)
        return done

    def cut(self) -> None:
        """Abort the connection; the engine may not have received the latest commands."""
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
        except EngineReplyError:  # invalid RESP
            self.cut()
        if self._unread > MOST_BYTES:
            self.cut()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.up = False
        if self._check is not None and self._check.active():
            self._check.cancel()
        waiting, self._waiting = self._waiting, deque()
        self._disconnected(self)
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
            self.cut()  # a reply without a command
            return
        _, done = self._waiting.popleft()
        if done.called:
            return
        if isinstance(reply, EngineReplyError):
            done.errback(reply)
        else:
            done.callback(reply)

    def _overdue(self) -> None:
        self._check = self._clock.callLater(LOOK_S, self._overdue)
        late = bool(self._waiting) and self._clock.seconds() - self._waiting[0][0] > DEADLINE_S
        if late and self._late:  # a single late reply may only mean that this process was busy
            self.cut()
        self._late = late


def _keep_place(_: Deferred[Any]) -> None:
    """Leave a cancelled command in the queue, because the engine still sends its reply."""
