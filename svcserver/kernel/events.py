"""The reactor's turn, the short way for what nearly every event is: bytes on a TCP connection.

Twisted makes a context for the log around each event, with copies of two dictionaries. None of
our log lines uses it, and it took a tenth of a small request.
"""

from __future__ import annotations

import errno
import select
from functools import partial
from typing import Any

from twisted.logger import Logger

log = Logger()

_IN = getattr(select, "EPOLLIN", 0)


def shorten(reactor: Any) -> None:
    """From now on events of an epoll reactor go the short way; other reactors stay as they are."""
    if type(reactor).__name__ == "EPollReactor":
        from twisted.internet import tcp  # whoever has such a reactor has loaded it

        reactor.doIteration = partial(turn, reactor, (tcp.Server, tcp.Client))


def turn(reactor: Any, kinds: tuple[type, ...], timeout: float | None) -> None:
    """Wait for events and handle them, as ``EPollReactor.doPoll`` does.

    ``kinds`` are those of connections whose bytes are handled the short way.
    """
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


def _ordinary(reactor: Any, selectable: Any, number: int, event: int) -> None:
    try:
        reactor._doReadOrWrite(selectable, number, event)
    except Exception:
        log.failure("an event could not be handled")
