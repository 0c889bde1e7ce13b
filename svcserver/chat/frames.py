"""WebSocket text frames as bytes, made once however many will get them."""

from __future__ import annotations

from struct import pack


def text_frame(stanza: str) -> bytes:
    """RFC 6455 5.2: FIN and text, unmasked, as a server sends it."""
    payload = stanza.encode("utf-8")
    size = len(payload)
    if size < 126:
        return pack("!BB", 0x81, size) + payload
    if size < 65_536:
        return pack("!BBH", 0x81, 126, size) + payload
    return pack("!BBQ", 0x81, 127, size) + payload
