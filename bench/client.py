"""A load generator's HTTP client: one keep-alive connection, one request in flight."""

import asyncio
from typing import Any, cast

from svcserver.players import http
from svcserver.players.http import ReplyReader

REQUEST_TIMEOUT_S = 15.0


class Connection(asyncio.Protocol):
    """A connection that reads replies with a Content-Length, which all compared servers send."""

    def __init__(self) -> None:
        self._reader = ReplyReader()
        self._waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, why: Exception | None) -> None:
        self._transport = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionError("the server closed the connection"))

    def send(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Send a request and return the status and body of the reply."""
        if self._transport is None:
            raise ConnectionError("not connected")
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiter

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        reply = self._reader.feed(data)
        waiter = self._waiter
        if reply is not None and waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result((reply.status, reply.body))


async def connect(port: int) -> Connection:
    """Return a connection to a loopback port."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
    return connection


def request(method: str, path: str, sent: Any = None, *, token: str = "") -> bytes:
    """Return the bytes of a request as the game's gateway would forward it."""
    headers = {"Host": "127.0.0.1"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return http.request(method, path, sent, headers)
