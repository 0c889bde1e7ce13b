"""The reactor's turn, the short way: bytes on a TCP connection, and what threads hand over.

Twisted makes a context for the log around each event, with copies of two dictionaries. None of
our log lines uses it, and it took a tenth of a small request. What a thread hands over goes
through thirty calls there, and what shall follow the events of a turn through a heap of timers:
an eighth of a request that asks the database.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.error import ReactorNotRunning
from twisted.logger import Logger

log = Logger()

_IN = getattr(select, "EPOLLIN", 0)
Later = deque[tuple[Callable[..., Any], tuple[Any, ...]]]


def shorten(reactor: Any) -> None:
    """From now on events of an epoll reactor go the short way; other reactors stay as they are."""
    if type(reactor).__name__ != "EPollReactor" or hasattr(reactor, "after_events"):
        return
    from twisted.internet import tcp  # whoever has such a reactor has loaded it

    reactor.after_events = later = Later()
    reactor.doIteration = partial(turn, reactor, (tcp.Server, tcp.Client, Bell), later)
    bell = Bell()
    reactor._internalReaders.add(bell)  # as the reactor's own waker: it outlasts ``removeAll``
    reactor.addReader(bell)
    reactor.callFromThread = bell.call


def after_events(reactor: Any, call: Callable[..., Any], *args: Any) -> None:
    """Call once the events of this turn are handled; elsewhere in the next turn."""
    later: Later | None = getattr(reactor, "after_events", None)
    if later is None:
        reactor.callLater(0, call, *args)
    else:
        later.append((call, args))


class Bell:
    """Runs in the reactor's thread what other threads hand over: its ``callFromThread``."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = deque()
        self._rung = False  # the reactor will look; whoever rings has handed over before
        self._descriptor = _counter()

    def call(self, function: Callable[..., Any], *args: Any, **more: Any) -> None:
        """Call ``function`` soon in the reactor's thread; from any thread, and from signals."""
        self._calls.append((function, args, more))
        if not self._rung:
            self._rung = True
            os.write(self._descriptor, _ONE)

    def fileno(self) -> int:
        return self._descriptor

    def logPrefix(self) -> str:
        return "bell"

    def doRead(self) -> None:
        """Called by the reactor: make the calls."""
        try:
            os.read(self._descriptor, len(_ONE))
        except BlockingIOError:
            return  # nobody has rung
        self._rung = False  # before the look: what is handed over from now on rings again
        calls = self._calls
        for _ in range(len(calls)):
            function, args, more = calls.popleft()
            try:
                function(*args, **more)
            except ReactorNotRunning:  # a second signal to stop: it stops already
                log.debug("asked to stop again")
            except BaseException:  # even that of an exit, as Twisted does: the next ones wait
                log.failure("a call from another thread failed")

    def connectionLost(self, why: Any) -> None:
        os.close(self._descriptor)


_ONE = (1).to_bytes(8, sys.byteorder)


def _counter() -> int:
    """A descriptor that can be read once something was written to it."""
    if sys.platform == "linux":
        return os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
    raise OSError(errno.ENOSYS, "only Linux has epoll and eventfd")


def turn(reactor: Any, kinds: tuple[type, ...], later: Later, timeout: float | None) -> None:
    """Wait for events and handle them, as ``EPollReactor.doPoll`` does; then what is ``later``.

    ``kinds`` are those of connections whose bytes are handled the short way.
    """
    if later:
        _follow(later)  # of timers
        timeout = 0  # it may have set others
    connections = reactor._selectables
    try:
        events = reactor._poller.poll(-1 if timeout is None else timeout, len(connections))
    except OSError as why:
        if why.errno != errno.EINTR:
            raise
        return
    for number, event in events:
        connection = connections.get(number)
        if connection is None:  # an earlier event of this turn has ended it
            continue
        if event != _IN or type(connection) not in kinds:
            _ordinary(reactor, connection, number, event)
            continue
        came = True
        try:
            ended = connection.doRead()
        except Exception as why:
            log.failure("a connection could not handle what came")
            ended, came = why, False
        if ended:
            reactor._disconnectSelectable(connection, ended, came)
    if later:
        _follow(later)


def _follow(later: Later) -> None:
    """Make the calls that wait; what they add waits for the next turn."""
    for _ in range(len(later)):
        call, args = later.popleft()
        try:
            call(*args)
        except BaseException:
            log.failure("a call put off to the end of the reactor's turn failed")


def _ordinary(reactor: Any, selectable: Any, number: int, event: int) -> None:
    try:
        reactor._doReadOrWrite(selectable, number, event)
    except Exception:
        log.failure("an event could not be handled")
