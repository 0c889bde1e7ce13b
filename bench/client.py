"""A load generator's HTTP client: one keep-alive connection, one request in flight."""

from __future__ import annotations

import asyncio
from typing import cast

REQUEST_TIMEOUT_S = 15.0


class Connection(asyncio.Protocol):
    """Reads answers with a Content-Length; that is what every contestant sends."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, why: Exception | None) -> None:
        self._transport = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionError("the server closed the connection"))

    def send(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Status and body of the answer."""
        if self._transport is None:
            raise ConnectionError("not connected")
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._waiter

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0 or self._waiter is None:
            return
        head = bytes(self._buffer[:head_end]).lower()
        length_at = head.find(b"\r\ncontent-length:")
        length = 0
        if length_at >= 0:
            line_end = head.find(b"\r\n", length_at + 2)
            length = int(head[length_at + 17 : line_end if line_end > 0 else len(head)])
        whole = head_end + 4 + length
        if len(self._buffer) < whole:
            return
        body = bytes(self._buffer[head_end + 4 : whole])
        del self._buffer[:whole]
        waiter, self._waiter = self._waiter, None
        if not waiter.done():
            waiter.set_result((int(head[9:12]), body))


async def connect(port: int) -> Connection:
    """A connection to a loopback port."""
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
    return connection


def request(
    method: str, path: str, body: bytes | None = None, *, token: str = "", form: bool = False
) -> bytes:
    """The bytes of a request as the game's gateway would forward it."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    if body is not None:
        kind = "application/x-www-form-urlencoded" if form else "application/json"
        lines += [f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")
