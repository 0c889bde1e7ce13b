"""Incremental body readers: by length, chunked, or until the connection ends."""

import re

from attrs import define, field

from svcserver.http.heads import Fault

MAX_LINE = 1_024  # maximum bytes of a chunk's size line
MAX_TRAILER = 8 * 1_024
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,12})(?:;[\t\x20-\x7e]*)?")
_TRAILER = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t\x20-\x7e\x80-\xff]*")


@define
class CountedBody:
    """A reader for a body of a known length."""

    left: int
    done: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.done = self.left == 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Split ``data`` into the body's bytes and the bytes after the body."""
        part = data[: self.left]
        self.left -= len(part)
        self.done = self.left == 0
        return part, data[len(part) :]


@define
class Endless:
    """A reader for a body that ends when the connection ends."""

    done: bool = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        return data, b""


@define
class Chunked:
    """A reader for a chunked body; it checks and drops trailers. Raises Fault."""

    done: bool = field(default=False, init=False)
    _rest: bytes = field(default=b"", init=False)
    _left: int = field(default=0, init=False)  # missing bytes of the current chunk
    _ending: bool = field(default=False, init=False)  # True if the CRLF after a chunk comes next
    _trailer: int = field(default=-1, init=False)  # bytes of trailers so far; -1: none has begun

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Split ``data`` into the decoded bytes of the body and the bytes after the body."""
        data = self._rest + data if self._rest else data
        parts: list[bytes] = []
        position = 0
        while position < len(data) and not self.done:
            if self._left:
                part = data[position : position + self._left]
                parts.append(part)
                position += len(part)
                self._left -= len(part)
                self._ending = self._left == 0
                continue
            line, after = self._line(data, position)
            if line is None:
                break
            position = after
            self._understand(line)
        self._rest = b"" if self.done else data[position:]
        return b"".join(parts), data[position:] if self.done else b""

    def _line(self, data: bytes, position: int) -> tuple[bytes | None, int]:
        end = data.find(b"\n", position, position + MAX_LINE)
        if end < 0:
            if len(data) - position >= MAX_LINE:
                raise Fault("chunk line too long")
            if self._ending and data[position : position + 2] != b"\r\n"[: len(data) - position]:
                raise Fault("chunk end")
            return None, position
        line = data[position : end + 1]
        if not line.endswith(b"\r\n"):
            raise Fault("a line of a chunk ends with a line feed without a carriage return")
        return line[:-2], end + 1

    def _understand(self, line: bytes) -> None:
        if self._ending:
            if line:
                raise Fault("chunk end")
            self._ending = False
        elif self._trailer >= 0:
            self._trailer += len(line) + 2
            if line and (self._trailer > MAX_TRAILER or not _TRAILER.fullmatch(line)):
                raise Fault("trailer")
            self.done = not line
        else:
            size = _SIZE.fullmatch(line)
            if size is None:
                raise Fault("chunk size")
            self._left = int(size[1], 16)
            if self._left == 0:
                self._trailer = 0


Body = CountedBody | Endless | Chunked


def body_of(length: int | None) -> Body:
    """Return a body reader for ``length``.

    None means a chunked body; -1 means a body that ends when the connection closes.
    """
    if length is None:
        return Chunked()
    return Endless() if length < 0 else CountedBody(length)
