"""Makes WebSocket text frames as bytes, once for all receivers."""

from __future__ import annotations

from struct import pack

from twisted.words.xish.domish import Element

from svcserver.chat.stanza import serialize


def text_frame(stanza: str) -> bytes:
    """An unmasked, final text frame. RFC 6455 5.2."""
    payload = stanza.encode("utf-8")
    size = len(payload)
    if size < 126:
        return pack("!BB", 0x81, size) + payload
    if size < 65_536:
        return pack("!BBH", 0x81, 126, size) + payload
    return pack("!BBQ", 0x81, 127, size) + payload


def element_frame(element: Element) -> bytes:
    """Return the text frame of an element."""
    return text_frame(serialize(element))
