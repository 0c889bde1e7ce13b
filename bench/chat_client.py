"""A chat client for the load generator: XMPP in WebSocket frames, for all three servers."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import cast

from attrs import frozen

FRAMING = "urn:ietf:params:xml:ns:xmpp-framing"
SASL = "urn:ietf:params:xml:ns:xmpp-sasl"
BIND = "urn:ietf:params:xml:ns:xmpp-bind"
MUC = "http://jabber.org/protocol/muc"
PATIENCE_S = 30.0
SELF = (b'code="110"', b"code='110'")
TEXT, CLOSE = 0x81, 0x88


@frozen
class Place:
    """Where a server's chat is, and what it calls itself."""

    port: int
    path: str
    domain: str


@frozen
class Login:
    """An account that may come in."""

    account: str
    password: str
    name: str


def masked(text: str, kind: int = TEXT) -> bytes:
    """A client's frame; the mask is zero, so the bytes need no work."""
    body = text.encode()
    if len(body) < 126:
        head = struct.pack("!BB", kind, 0x80 | len(body))
    else:
        head = struct.pack("!BBH", kind, 0x80 | 126, len(body))
    return head + b"\0\0\0\0" + body


class Chatter(asyncio.Protocol):
    """One connection. ``sink``, once set, gets the raw bytes instead of ``until``."""

    def __init__(self, place: Place, login: Login, number: int) -> None:
        self.place, self.login = place, login
        self.resource = f"V2:bench:{number:04d}"
        self.nick = f"{login.name}:{login.account}:{self.resource}"
        self.sink: Callable[[bytes], None] | None = None
        self.left = asyncio.Event()
        self._buffer = b""
        self._open = False
        self._frames: deque[bytes] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.transport: asyncio.Transport | None = None

    @property
    def gone(self) -> bool:
        """Whether the connection has ended."""
        return self.left.is_set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, why: Exception | None) -> None:
        self.left.set()
        self._wake()

    def data_received(self, data: bytes) -> None:
        if self.sink is not None:
            self.sink(data)
            return
        self._buffer += data
        if not self._open:
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            assert b" 101 " in head, head
            self._open, self._buffer = True, rest
            self._frames.append(b"upgraded")
        self._split()
        self._wake()

    def _split(self) -> None:
        data, at = self._buffer, 0
        while len(data) - at >= 2:
            size, start = data[at + 1] & 0x7F, at + 2
            if size == 126:
                size, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            elif size == 127:
                size, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
            if len(data) < start + size:
                break
            self._frames.append(data[start : start + size])
            at = start + size
        self._buffer = data[at:]

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def send(self, stanza: str) -> None:
        """One stanza."""
        assert self.transport is not None
        self.transport.write(masked(stanza))

    async def until(self, *signs: bytes) -> bytes:
        """The next frame with one of the signs; what comes before it is thrown away."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                while self._frames:
                    frame = self._frames.popleft()
                    if any(sign in frame for sign in signs):
                        return frame
                if self.gone:
                    raise ConnectionError(f"closed while waiting for {signs!r}")
                self._waiter = asyncio.get_running_loop().create_future()
                await self._waiter

    async def arrive(self, receive_buffer: int = 0) -> None:
        """Connect, log in and bind."""
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        loop, place = asyncio.get_running_loop(), self.place
        await loop.sock_connect(sock, ("127.0.0.1", place.port))
        await loop.create_connection(lambda: self, sock=sock)
        key = base64.b64encode(os.urandom(16)).decode()
        assert self.transport is not None
        self.transport.write(
            f"GET {place.path} HTTP/1.1\r\nHost: 127.0.0.1:{place.port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Protocol: xmpp\r\n\r\n".encode()
        )
        await self.until(b"upgraded")
        start = f'<open xmlns="{FRAMING}" to="{place.domain}" version="1.0"/>'
        self.send(start)
        await self.until(b"features")
        proof = f"\0{self.login.account}\0{self.login.password}".encode()
        proof = base64.b64encode(proof)
        self.send(f'<auth xmlns="{SASL}" mechanism="PLAIN">{proof.decode()}</auth>')
        said = await self.until(b"<success", b"<failure")
        assert b"<success" in said, said
        self.send(start)
        await self.until(b"features")
        self.send(
            f'<iq xmlns="jabber:client" type="set" id="b1"><bind xmlns="{BIND}">'
            f"<resource>{self.resource}</resource></bind></iq>"
        )
        said = await self.until(b"<jid", b"<error")
        assert b"<jid" in said, said

    async def join(self, room: str) -> None:
        """Sit down in a room of the server's."""
        self.send(
            f'<presence xmlns="jabber:client" to="{room}@muc.{self.place.domain}/{self.nick}">'
            f'<x xmlns="{MUC}"/></presence>'
        )
        said = await self.until(*SELF, b"<error")
        assert b"<error" not in said, said

    def say(self, room: str, body: str) -> None:
        """A line to the room."""
        self.send(self.line(room, body))

    def line(self, room: str, body: str) -> str:
        """A line to the room, as a stanza."""
        return (
            f'<message xmlns="jabber:client" type="groupchat" '
            f'to="{room}@muc.{self.place.domain}" id="m1"><body>{body}</body></message>'
        )

    def leave(self) -> None:
        """Say goodbye and hang up."""
        if self.transport is not None and not self.gone:
            self.send(f'<close xmlns="{FRAMING}"/>')
            self.transport.write(masked("", CLOSE))
            self.transport.close()
