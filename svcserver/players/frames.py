"""A client's WebSocket frames with a mask of zeros, which leaves the message unchanged.

Such frames take little CPU time, and equal messages give equal bytes.

Clients on a real network use ``players.websocket``, which masks frames randomly.
"""

from collections.abc import Callable
from struct import pack, unpack_from

from attrs import define, field

from svcserver.players.chat import ChatClient, Transport

TEXT, CLOSE = 1, 8
_MASK = b"\0\0\0\0"  # leaves the bytes unchanged; there is no proxy that a mask would protect


def upgrade(port: int, path: str = "//", more: str = "") -> bytes:
    """Return the upgrade request for the chat's WebSocket; ``more`` are header lines."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: xmpp\r\n{more}\r\n"
    ).encode()


def masked(payload: bytes, opcode: int = TEXT) -> bytes:
    """Return a whole message as one masked WebSocket frame, as a client sends it."""
    size = len(payload)
    if size < 126:
        head = pack("!BB", 0x80 | opcode, 0x80 | size)
    elif size < 65_536:
        head = pack("!BBH", 0x80 | opcode, 0xFE, size)
    else:
        head = pack("!BBQ", 0x80 | opcode, 0xFF, size)
    return head + _MASK + payload


def split(data: bytes) -> tuple[list[tuple[int, bytes]], bytes]:
    """Return a server's complete frames as (opcode, payload), and the remaining bytes."""
    frames, at = [], 0
    while len(data) - at >= 2:
        size, start = data[at + 1], at + 2
        if size >= 126:
            width, layout = (2, "!H") if size == 126 else (8, "!Q")
            if len(data) < start + width:
                break
            (size,), start = unpack_from(layout, data, start), start + width
        if len(data) < start + size:
            break
        frames.append((data[at] & 0x0F, data[start : start + size]))
        at = start + size
    return frames, data[at:]


@define(eq=False)
class ChatReader:
    """The parser of the bytes from a chat server: first the reply to the upgrade, then frames."""

    client: ChatClient
    transport: Transport
    is_wanted: Callable[[bytes], bool] = lambda payload: True
    _data: bytes = field(default=b"", init=False)
    _is_open: bool = field(default=False, init=False)

    def feed(self, data: bytes) -> None:
        """Parse the bytes and pass the results to the chat client."""
        self._data += data
        if not self._is_open:
            head, end, rest = self._data.partition(b"\r\n\r\n")
            if not end:
                return
            if b" 101 " not in head.split(b"\r\n")[0]:
                self.transport.close()
                self.client.ended("refused")
                return
            self._is_open, self._data = True, rest
            self.client.opened(self.transport)
        frames, self._data = split(self._data)
        for opcode, payload in frames:
            if opcode == CLOSE:
                self.client.ended()
            elif opcode == TEXT and self.is_wanted(payload):
                self.client.arrived(payload.decode())
