"""The second parser of request heads, llhttp, whose result must equal that of our parser."""

from functools import partial

import httptools
from attrs import define, field


@define
class _Collector:
    """The llhttp callbacks that collect the parsed parts."""

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
    """Return whether llhttp finds this method, this target and this number of fields in a head."""
    collector = _Collector()
    parser = httptools.HttpRequestParser(collector)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # llhttp stops after the head of an upgrade, and got only the head
    except httptools.HttpParserCallbackError:
        raise
    except httptools.HttpParserError:
        return False
    result = (collector.complete, collector.target, collector.count, parser.get_method())
    return result == (True, target, count, method)


class _LineReader:
    """A reader of request lines, which passes each line to llhttp as a message without fields.

    After a line on which llhttp and our own parser disagree, a new llhttp parser is used.
    """

    __slots__ = ("_events", "_parser", "on_message_complete", "on_url")

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._events: list[bytes] = []
        self.on_url = self._events.append
        self.on_message_complete = partial(self._events.append, b"")  # avoids Python functions
        self._parser = httptools.HttpRequestParser(self)

    def agrees(self, line: bytes, method: bytes, target: bytes) -> bool:
        """Return whether llhttp finds this method and this target in an HTTP/1.1 ``line``."""
        parser, events = self._parser, self._events
        try:
            parser.feed_data(line + b"\r\n")
            if events == [target, b""] and parser.get_method() == method:
                events.clear()
                return True
        except httptools.HttpParserError:
            pass  # treated like any other disagreement
        self._begin()  # events of this line must not affect the next line
        return False


line_agrees = _LineReader().agrees
