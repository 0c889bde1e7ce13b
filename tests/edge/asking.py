"""Requests that the tests of the proxy core send."""

from __future__ import annotations

H = b"Host: localhost\r\n"


GET = b"GET /g HTTP/1.1\r\n" + H + b"\r\n"


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1]) if reply else 0


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
