"""Range, If-Range and If-None-Match headers; one range a request. Spec: 2 §4 Content server."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

_MAX_DIGITS = 18  # more digits than any file has bytes


@frozen
class Span:
    """The bytes ``start`` up to but not including ``end`` of a file of ``size`` bytes."""

    start: int
    end: int
    size: int

    @property
    def length(self) -> int:
        return self.end - self.start

    @property
    def content_range(self) -> str:
        """``bytes FIRST-LAST/SIZE``, where LAST is included, as HTTP counts (RFC 9110, 14.4)."""
        return f"bytes {self.start}-{self.end - 1}/{self.size}"


class Unsatisfiable(ValueError):
    """416: the file has no such range."""


def wanted(
    ranges: Sequence[bytes], if_range: Sequence[bytes], etag: str, size: int
) -> tuple[Span, bool]:
    """The span to send and whether it is a partial answer (206).

    ``ranges`` and ``if_range`` are the header values as sent. A missing Range, or an
    If-Range that is not exactly our ETag (another ETag, a weak one, a date), means the
    whole file. Raises Unsatisfiable.
    """
    whole = Span(0, size, size)
    if not ranges or (if_range and list(if_range) != [etag.encode()]):
        return whole, False
    if len(ranges) > 1:
        raise Unsatisfiable("several ranges")
    return parse(ranges[0], size), True


def parse(header: bytes, size: int) -> Span:
    """The one range of a ``Range`` header over ``size`` bytes; raises Unsatisfiable."""
    unit, equals, text = header.decode("latin-1").strip(" \t").partition("=")
    if not equals or unit.lower() != "bytes":
        raise Unsatisfiable("another unit")
    first, dash, last = text.partition("-")
    if not dash:
        raise Unsatisfiable("no range")
    if first == "":
        count = min(_number(last), size)
        if count == 0:
            raise Unsatisfiable("nothing at the end")
        return Span(size - count, size, size)
    start = _number(first)
    end = size if last == "" else _number(last) + 1
    if start >= size or end <= start:
        raise Unsatisfiable("past the end or backwards")
    return Span(start, min(end, size), size)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise Unsatisfiable("not a number")
    digits = text.lstrip("0")
    return 10**_MAX_DIGITS if len(digits) > _MAX_DIGITS else int(digits or "0")


def matches(conditions: Sequence[bytes], etag: str) -> bool:
    """Whether an ``If-None-Match`` names our ETag, so that 304 is the answer."""
    for value in conditions:
        for one in value.decode("latin-1").split(","):
            tag = one.strip(" \t").removeprefix("W/")
            if tag in (etag, "*"):
                return True
    return False
