"""Range and conditional headers, with one range per request. Spec: 2 §4 Content server."""

from collections.abc import Sequence

from attrs import frozen

_MAX_DIGITS = 18  # more digits than any file has bytes


@frozen
class Span:
    """The bytes from ``start`` up to but not including ``end``, of a file of ``size`` bytes."""

    start: int
    end: int
    size: int

    @property
    def length(self) -> int:
        return self.end - self.start

    @property
    def content_range(self) -> str:
        """Return ``bytes FIRST-LAST/SIZE``; LAST is included (RFC 9110, section 14.4)."""
        return f"bytes {self.start}-{self.end - 1}/{self.size}"


class Unsatisfiable(ValueError):
    """The error for a range that the file does not have (status 416)."""


def wanted(
    ranges: Sequence[bytes], if_range: Sequence[bytes], etag: str, size: int
) -> tuple[Span, bool]:
    """Return the span to send, and whether the answer is partial (206).

    ``ranges`` and ``if_range`` are the header values as the client sent them. Without a Range, or
    if an If-Range is not exactly ``etag``, the span is the whole file. Raises Unsatisfiable.
    """
    whole = Span(0, size, size)
    if not ranges or (if_range and list(if_range) != [etag.encode()]):
        return whole, False
    if len(ranges) > 1:
        raise Unsatisfiable("several ranges")
    return parse(ranges[0], size), True


def parse(header: bytes, size: int) -> Span:
    """Return the span that a ``Range`` header asks for in a file of ``size`` bytes.

    Raises Unsatisfiable, also for a header with several ranges.
    """
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


def status_of(if_match: Sequence[bytes], if_none_match: Sequence[bytes], etag: str) -> int:
    """Return 412 or 304 if a conditional header requires it, else 200 (RFC 9110, 13.2.2).

    If-Unmodified-Since and If-Modified-Since are ignored, because answers give no modification
    date.
    """
    current = _tags(if_match)  # with the W/ prefix, so that a weak tag never matches
    if if_match and etag not in current and current != {"*"}:
        return 412
    if {etag, "*"} & {tag.removeprefix("W/") for tag in _tags(if_none_match)}:
        return 304
    return 200


def _tags(values: Sequence[bytes]) -> set[str]:
    return {tag.strip(" \t") for value in values for tag in value.decode("latin-1").split(",")}
