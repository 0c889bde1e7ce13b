"""The heads of HTTP/1.1 messages, read so that no two readings are possible.

Our own check of the raw bytes comes first; only what passes it is shown to llhttp, and
the two must agree. What is stricter than RFC 9112 asks is so because the bytes go on to
another server, which must never see another message than we did. Spec: 2 §7 Gateway.

A client sends the same fields with one request line after another, so fields that have come
before are not read again: then the line alone is read, by both.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import httptools
from attrs import define, field

from svcserver.http.remembered import Remembered

MAX_HEAD = 16 * 1024  # bytes of a request head
MAX_RESPONSE_HEAD = 64 * 1024
METHODS = frozenset([b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS"])

Header = tuple[bytes, bytes, bytes]  # name as sent, name in lower case, value
Fields = dict[bytes, list[bytes]]  # values by lower-case name
Lines = dict[frozenset[bytes], bytes]  # how fields are passed on, by those that are left out
Answers = dict[tuple[frozenset[bytes], bool, bool], bytes]  # the same, and how its end is told

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_USUAL_LINE = re.compile(
    rb"(GET|HEAD|POST|PUT|DELETE|PATCH|OPTIONS) ([\x21-\x7e\x80-\xff]+) HTTP/1\.1\r\n"
)
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([^ \r\n]+) HTTP/1\.([01])")
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([\t\x20-\x7e\x80-\xff]*))?")
_FIELD = re.compile(rb"(?<![^\n])(" + _TOKEN + rb"+):([\t\x20-\x7e\x80-\xff]*+)\r\n")
_BARE_LF = re.compile(rb"(?<!\r)\n")
_HOST = re.compile(rb"(?:[A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
_SHORT = 64  # bytes; longer ones are rare, and would make remembering costly
_NOTHING: frozenset[bytes] = frozenset()
_LENGTH = re.compile(rb"[0-9]{1,15}")
MOST_BLOCK_BYTES = 32 * 1024 * 1024  # half of it takes the fields of 2,700 players


class Fault(Exception):
    """A message that cannot be passed on; the connection ends with the answer.

    ``code`` is the machine word of the refusal, ``kind`` says what is wrong for the log.
    """

    def __init__(self, kind: str, status: int = 400, code: str = "bad_request") -> None:
        super().__init__(kind)
        self.kind, self.status, self.code = kind, status, code


class FieldBlock(NamedTuple):
    """The fields of a request, and what they say about it.

    The same bytes have the same fields, often the same object.
    """

    headers: tuple[Header, ...]
    fields: Fields
    lines: Lines
    length: int | None
    keep_alive: bool
    expects: bool
    upgrade: bytes
    named: frozenset[bytes]

    def __repr__(self) -> str:
        """Without values, which may be keys and tokens."""
        return f"<{len(self.headers)} fields>"


class RequestHead(NamedTuple):
    """A request as far as the empty line. ``length`` is None for a chunked body."""

    method: bytes
    target: bytes
    minor: int
    headers: tuple[Header, ...]  # from here on a FieldBlock
    fields: Fields
    lines: Lines
    length: int | None
    keep_alive: bool
    expects: bool
    upgrade: bytes  # the Upgrade field, lower case
    named: frozenset[bytes]  # what the Connection field names

    def __repr__(self) -> str:
        """Without fields and target, which may hold keys and tokens."""
        return f"<head of {self.method!r}>"

    @property
    def has_body(self) -> bool:
        """Whether bytes follow the head."""
        return self.length != 0

    @property
    def is_plain(self) -> bool:
        """Whether the target is a path, and free of control characters; never pass on others."""
        return self.target.startswith(b"/") and not _CONTROL.search(self.target)

    def values(self, name: bytes) -> Sequence[bytes]:
        """Every value of the field with that lower-case name."""
        return self.fields.get(name, ())


class ResponseHead(NamedTuple):
    """An answer as far as the empty line; ``length`` None: chunked, -1: until the end."""

    status: int
    reason: bytes
    headers: tuple[Header, ...]
    length: int | None
    declared: bytes | None  # the Content-Length field itself, which HEAD answers keep
    keep_alive: bool
    named: frozenset[bytes]
    lines: Answers

    def __repr__(self) -> str:
        """Without the fields, which may hold tokens."""
        return f"<head of {self.status}>"


def find_end(buffer: bytes, limit: int = MAX_HEAD, searched: int = 0) -> int:
    """Where the head in ``buffer`` ends, -1 while it is incomplete; raises Fault.

    ``searched``: so many bytes of it were here before, with -1 as the answer. They are not
    searched again, or a head that comes byte by byte would cost the square of its length.
    """
    end = buffer.find(b"\r\n\r\n", searched - 3 if searched > 3 else 0)
    if end < 0:
        if len(buffer) > limit:
            raise Fault("head too large", 431, "headers_too_large")
        if buffer and buffer[0] in b"\r\n\t ":
            raise Fault("blank before the request line")
        if _BARE_LF.search(buffer, searched):
            raise Fault("bare line feed")
        return -1
    if end + 4 > limit:
        raise Fault("head too large", 431, "headers_too_large")
    return end + 4


def read_request(raw: bytes, *, passed_on: bool = True) -> RequestHead:
    """The head whose bytes, with the empty line, are ``raw``; raises Fault.

    Where nothing is ``passed_on``, HTTP/1.0 needs no Host (RFC 9112 section 3.2): health
    checks of load balancers send none.
    """
    start = _USUAL_LINE.match(raw)
    if start is None:
        return _unusual(raw, passed_on)
    method, target = start.group(1, 2)
    rest = raw[start.end() :]
    block = _BLOCKS.get(rest)
    if block is None:
        block = _block(rest, 1, passed_on)
        _second_opinion(raw, method, target, len(block.headers))
        _BLOCKS.keep(rest, block)
    elif not _lines_again.agrees(raw[: start.end()], method, target):
        raise Fault("second opinion")
    return RequestHead(method, target, 1, *block)


def _unusual(raw: bytes, passed_on: bool) -> RequestHead:
    """Parse a head that is not a plain HTTP/1.1 request, or must be refused; raises Fault."""
    line, _, rest = raw.partition(b"\r\n")
    start = _REQUEST_LINE.fullmatch(line)
    if start is None:
        raise Fault("request line")
    method, target, minor = start[1], start[2], int(start[3])
    block = _block(rest, minor, passed_on)
    if method in METHODS and not _CONTROL.search(target):
        _second_opinion(raw, method, target, len(block.headers))
    return RequestHead(method, target, minor, *block)


def _block(raw: bytes, minor: int, passed_on: bool) -> FieldBlock:
    """The fields whose bytes, with the empty line, are ``raw``; raises Fault."""
    headers, fields = _fields(raw[:-2])
    hosts = fields.get(b"host", ())
    if (hosts or minor == 1 or passed_on) and not _is_one_host(hosts):
        raise Fault("host")
    named = _tokens(fields.get(b"connection", ()))
    return FieldBlock(
        headers,
        fields,
        {},
        _request_length(fields, minor),
        keep_alive=minor == 1 and b"close" not in named,
        expects=_expects(fields, minor),
        upgrade=b",".join(fields.get(b"upgrade", ())).strip().lower(),
        named=named,
    )


def origin_form(target: bytes) -> bytes:
    """The path and query of a target, which a server must find in a whole URL, too.

    RFC 9112 section 3.2.2. Raises Fault where there is none, or a control character.
    """
    url = _ABSOLUTE.match(target)
    if url is not None and _HOST.fullmatch(url[1]):
        target = target[url.end() :]
        if not target.startswith(b"/"):
            target = b"/" + target
    if not target.startswith(b"/") or _CONTROL.search(target):
        raise Fault("target")
    return target


def read_response(raw: bytes, method: bytes) -> ResponseHead:
    """The answer to a ``method`` request; raises Fault."""
    to_head = method == b"HEAD"
    answers = _ANSWERS[to_head]
    answer = answers.get(raw)
    if answer is None:
        answer = _response(raw, to_head)
        answers.keep(raw, answer)
    return answer


def _response(raw: bytes, to_head: bool) -> ResponseHead:
    line, _, rest = raw.partition(b"\r\n")
    start = _STATUS_LINE.fullmatch(line)
    if start is None:
        raise Fault("status line")
    minor, status = int(start[1]), int(start[2])
    headers, fields = _fields(rest[:-2])
    named = _tokens(fields.get(b"connection", ()))
    lengths = fields.get(b"content-length", [])
    length: int | None = _response_length(fields, minor)
    bare = to_head or status < 200 or status in (204, 304)
    keep = b"close" not in named and (minor == 1 or b"keep-alive" in named)
    return ResponseHead(
        status,
        start[3] or b"",
        headers,
        0 if bare else length,
        lengths[0] if lengths and status >= 200 and status != 204 else None,
        keep and (bare or length != -1),
        named,
        {},
    )


_BLOCKS: Remembered[FieldBlock] = Remembered(MOST_BLOCK_BYTES)  # of HTTP/1.1 requests
_ANSWERS: tuple[Remembered[ResponseHead], ...] = (Remembered(), Remembered())  # to GET, to HEAD


def _fields(raw: bytes) -> tuple[tuple[Header, ...], Fields]:
    """Header lines, each with its CRLF; in order, and by name."""
    headers: list[Header] = []
    fields: Fields = {}
    left = len(raw)
    for name, value in _FIELD.findall(raw):
        left -= len(name) + len(value) + 3  # with the colon and the line end
        lower = name.lower()
        value = value.strip(b" \t")
        headers.append((name, lower, value))
        if lower in fields:
            fields[lower].append(value)
        else:
            fields[lower] = [value]
    if left:
        raise Fault("header line")  # something stands between the fields
    return tuple(headers), fields


def _request_length(fields: Fields, minor: int) -> int | None:
    lengths = fields.get(b"content-length")
    codings = fields.get(b"transfer-encoding")
    if codings:
        if lengths:
            raise Fault("both lengths")
        if minor == 0 or len(codings) != 1 or codings[0].lower() != b"chunked":
            raise Fault("transfer encoding")
        return None
    if not lengths:
        return 0
    if len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]):
        raise Fault("content length")
    return int(lengths[0])


def _response_length(fields: Fields, minor: int) -> int | None:
    if b"transfer-encoding" not in fields and b"content-length" not in fields:
        return -1
    return _request_length(fields, minor)


def _is_one_host(values: Sequence[bytes]) -> bool:
    return len(values) == 1 and _HOST.fullmatch(values[0]) is not None


def _expects(fields: Fields, minor: int) -> bool:
    values = fields.get(b"expect")
    if not values:
        return False
    if len(values) != 1 or values[0].lower() != b"100-continue":
        raise Fault("expectation", 417, "expectation_failed")
    return minor == 1


def _tokens(values: Sequence[bytes]) -> frozenset[bytes]:
    if not values:
        return _NOTHING
    value = b",".join(values)
    return _seen_before(value) if len(value) <= _SHORT else _tokens_of(value)


def _tokens_of(value: bytes) -> frozenset[bytes]:
    return frozenset(part.strip().lower() for part in value.split(b","))


_seen_before = lru_cache(maxsize=256)(_tokens_of)  # nearly all say the same few words


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


def _second_opinion(raw: bytes, method: bytes, target: bytes, count: int) -> None:
    """llhttp must read the same head; raises Fault where it does not."""
    seen = _Collector()
    parser = httptools.HttpRequestParser(seen)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # it stops after the head of an upgrade, which is all it was shown
    except httptools.HttpParserCallbackError:
        raise
    except httptools.HttpParserError:
        raise Fault("second opinion") from None
    if (seen.complete, seen.target, seen.count, parser.get_method()) != (
        True,
        target,
        count,
        method,
    ):
        raise Fault("second opinion")


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


_lines_again = _LineReader()
