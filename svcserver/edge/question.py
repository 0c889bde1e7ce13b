"""A single request that the proxy itself sends, such as a health check.

The request uses a connection of the pool; the connection is closed afterwards.
"""

from __future__ import annotations

import re
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from svcserver.edge.upstream import Pool, UpstreamConnection
from svcserver.edge.verdicts import Unreachable

NO_STATUS = 0
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LONGEST_STATUS = 32  # maximum bytes before the status is complete


def request_status(
    pool: Pool, request: bytes, clock: IReactorTime, patience_s: float
) -> Deferred[int]:
    """Send a request's bytes; the Deferred fires with the answer's status, or ``NO_STATUS``.

    The Deferred fails with ``Unreachable`` or ``ConnectError``, and with ``TimeoutError`` after
    ``patience_s`` seconds.
    """
    answered: Deferred[int] = Deferred()

    def connected(connection: UpstreamConnection) -> Deferred[int]:
        return answered.addErrback(_Question(connection, request, answered).give_up)

    asking: Deferred[Any] = pool.reach().addCallback(connected)
    return asking.addTimeout(patience_s, clock)


class _Question:
    """A request sent on a connection; ``answered`` fires with the status of the answer."""

    def __init__(
        self, connection: UpstreamConnection, request: bytes, answered: Deferred[int]
    ) -> None:
        self._connection, self._answered, self._received = connection, answered, b""
        connection.user = self
        transport: Any = connection.transport
        transport.write(request)

    def upstream_received(self, data: bytes) -> None:
        """Fire the Deferred with the status as soon as the status line is complete."""
        self._received += data
        match = _STATUS.match(self._received)
        if match is None and len(self._received) < _LONGEST_STATUS:
            return
        self._connection.abort()
        self._answered.callback(NO_STATUS if match is None else int(match[1]))

    def upstream_lost(self) -> None:
        """Fail, because the upstream closed the connection without an answer."""
        self._answered.errback(Unreachable(502, "bad_gateway"))

    def give_up(self, why: Failure) -> Failure:
        """Close the connection, because the caller no longer waits for the answer."""
        self._connection.abort()
        return why
