"""What llhttp reads in a request's head, to be compared with our own reading."""

from __future__ import annotations

from functools import partial

import httptools
from attrs import define, field


@define
class _Collector:
    """What llhttp has told of a head so far."""

    target: bytes = b""
    count: int = 0
    complete: bool = field(default=False, init=False)

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.count += 1

    def on_headers_complete(self) -> None:
        self.complete = True


def head_agrees(raw: bytes, method: bytes, target: bytes, count: int) -> bool:
    """Whether llhttp reads the same in a whole head: method, target, and so many fields."""
    seen = _Collector()
    parser = httptools.HttpRequestParser(seen)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # it stops after the head of an upgrade, which is all it was shown
    except httptools.HttpParserCallbackError:
        raise
    except httptools.HttpParserError:
        return False
    found = (seen.complete, seen.target, seen.count, parser.get_method())
    return found == (True, target, count, method)


class _LineReader:
    """llhttp, shown one request line after another; a new one after each that it refuses.

    Each is a whole message, one without fields, so that nothing is left of the one before.
    """

    __slots__ = ("_parser", "_seen", "on_message_complete", "on_url")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._seen: list[bytes] = []
        self.on_url = self._seen.append
        self.on_message_complete = partial(self._seen.append, b"")  # no Python for either
        self._parser = httptools.HttpRequestParser(self)

    def agrees(self, line: bytes, method: bytes, target: bytes) -> bool:
        """Whether it reads the same in an HTTP/1.1 ``line``, which comes with its CRLF."""
        parser, seen = self._parser, self._seen
        try:
            parser.feed_data(line + b"\r\n")
            if seen == [target, b""] and parser.get_method() == method:
                seen.clear()
                return True
        except httptools.HttpParserError:
            pass  # as any other disagreement
        self._begin()  # what it has seen of this line must not count for the next
        return False


line_agrees = _LineReader().agrees
