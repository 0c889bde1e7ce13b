"""The writing of answers as bytes; parts that many answers share are cached."""

from functools import lru_cache
from http import HTTPStatus
from typing import Any

from twisted.web.http import datetimeToString

from svcserver.http.connection import CLOSE
from svcserver.kernel import json
from svcserver.web.routes import Answer

BARE = (204, 304)  # have neither body nor length


class Stream:
    """A body written in pieces; its answer needs a Content-Length or Transfer-Encoding header."""

    def begin(self, out: Any) -> None:
        """Write the body with ``out.write``, and call ``out.finish()`` after the last byte.

        A subclass implements this; the channel calls it after the head is written.
        ``out.transport`` accepts a producer.
        """

    def half_closed(self) -> None:
        """Handle a client that has closed its sending side, but may still read."""

    def over(self) -> None:
        """Release resources; called once, after the last write or the loss of the connection."""


def encode_body(answer: Answer) -> bytes:
    """Return the body as bytes; raises TypeError if JSON cannot represent it."""
    body = answer.body
    if isinstance(body, bytes):
        return body
    return b"" if body is None else json.dump(body)


def response_head(answer: Answer, body: bytes, date: bytes, *, close: bool) -> bytes:
    """Return the head of an answer with this body, including the empty line."""
    status = answer.status
    if answer.headers or status in BARE:
        return _with_headers(answer, body, date, close=close)
    return b"%b%bContent-Length: %d\r\n%b\r\n" % (
        _start(status, answer.content_type) if body else _start(status, ""),
        date,
        len(body),
        CLOSE if close else b"",
    )


def _with_headers(answer: Answer, body: bytes, date: bytes, *, close: bool) -> bytes:
    fields = {"Content-Type": answer.content_type} if body else {}
    if answer.status not in BARE and "Transfer-Encoding" not in answer.headers:
        fields["Content-Length"] = str(len(body))
    fields.update(answer.headers)
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields.items()])
    if lines.count("\n") != len(fields) or lines.count("\r") != len(fields):
        raise ValueError("a header holds a line break")
    end = CLOSE if close else b""
    return b"%b%b%b%b\r\n" % (_start(answer.status, ""), date, lines.encode("latin-1"), end)


@lru_cache(maxsize=256)
def _start(status: int, content_type: str) -> bytes:
    """Return the status line, and the Content-Type line if the answer has one."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    kind = f"Content-Type: {content_type}\r\n" if content_type else ""
    return f"HTTP/1.1 {status} {phrase}\r\n{kind}".encode("latin-1")


def date_line(now: float) -> bytes:
    """Return the Date header line; ``now`` is in epoch seconds."""
    return b"Date: %b\r\n" % datetimeToString(now)
