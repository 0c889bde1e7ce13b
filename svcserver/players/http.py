"""The game's HTTP messages without I/O: requests as bytes, and a parser of replies."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from attrs import define, field, frozen


class NoAnswer(Exception):
    """The error for a missing reply; the request may have taken effect or not."""


class Form(dict[str, str]):
    """A request body that is sent as a URL-encoded form instead of JSON."""


@frozen
class Reply:
    """The reply to a request."""

    status: int
    body: bytes
    closes: bool = False  # the server closes the connection after this reply

    @property
    def json(self) -> Any:
        """Return the body as JSON, or None if the body is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def body_of(sent: Any) -> tuple[bytes, dict[str, str]]:
    """Return a body's bytes and its Content-Type header; ``None`` means no body."""
    if sent is None:
        return b"", {}
    if isinstance(sent, Form):
        return urlencode(sent).encode(), {"Content-Type": "application/x-www-form-urlencoded"}
    data = json.dumps(sent, ensure_ascii=False).encode()
    return data, {"Content-Type": "application/json"}


def request(method: str, path: str, sent: Any, headers: Mapping[str, str]) -> bytes:
    """Return the bytes of a request; ``sent`` is its body."""
    body, more = body_of(sent)
    lines = {**headers, **more}
    if body or method in ("POST", "PUT"):
        lines["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


@define
class ReplyReader:
    """The parser of one connection's replies, which must all have a Content-Length."""

    _data: bytearray = field(factory=bytearray, init=False)

    @property
    def is_empty(self) -> bool:
        """True if no bytes follow the last reply."""
        return not self._data

    def feed(self, data: bytes) -> Reply | None:
        """Return the reply once it is complete; until then, return None."""
        self._data += data
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self._data[: end + 2]).lower()
        status, size = int(head[9:12]), 0
        if status not in (204, 304):
            _, separator, rest = head.partition(b"\r\ncontent-length:")
            if not separator:
                return None
            size = int(rest[: rest.index(b"\r\n")])
        begin = end + 4
        if len(self._data) < begin + size:
            return None
        body = bytes(self._data[begin : begin + size])
        del self._data[: begin + size]
        return Reply(status, body, b"\r\nconnection: close\r\n" in head)
