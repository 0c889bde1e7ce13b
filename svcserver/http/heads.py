"""The heads of HTTP/1.1 messages, parsed so strictly that all servers understand them alike.

We check and parse the raw bytes. Then llhttp parses them, too, and must get the same result. Some
rules are stricter than RFC 9112, so that the next server cannot understand the bytes differently.
Spec: 2 §7 Gateway.

The requests of a client are often alike. So the request line and the header fields are cached
separately, and only the part that is new is parsed.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from attrs import define

from svcserver.http.second_opinion import head_agrees, line_agrees
from svcserver.kernel.cache import BoundedCache

MAX_HEAD = 16 * 1024  # bytes of a request head
MAX_RESPONSE_HEAD = 64 * 1024
METHODS = frozenset([b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS"])
_METHOD = {method: method for method in METHODS}  # so that cached lines share these objects

Header = tuple[bytes, bytes, bytes]  # name as sent, name in lower case, value
Fields = dict[bytes, list[bytes]]  # values by lower-case name
Lines = dict[frozenset[bytes], bytes]  # forwarded fields, by the set of dropped fields
Answers = dict[tuple[frozenset[bytes], bool, bool], bytes]  # by dropped fields, chunked, close
T = TypeVar("T")

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
_SHORT = 64  # bytes of a Connection field that is cached; longer ones are rare
_NOTHING: frozenset[bytes] = frozenset()
_LENGTH = re.compile(rb"[0-9]{1,15}")
MOST_BLOCK_BYTES = 32 * 1024 * 1024  # half of the cache holds the fields of 2,700 players
EACH_LINE = 300  # bytes of memory that a cached line takes, in addition to its text
MOST_LINE_BYTES = 32 * 1024 * 1024  # half of the cache holds eight lines each for 2,000 players
MOST_BYTES = 16 * 1024 * 1024  # of memory, approximately
LONGEST = 2_048  # bytes of a head that is cached; longer ones are rare
# bytes of memory that a head, a field, a name in a Connection field and a byte take; rounded up
_EACH, _PER_FIELD, _PER_NAME, _PER_BYTE = 800, 300, 130, 4


@define(eq=False)
class HeadCache(BoundedCache[bytes, T]):
    """A cache of parsed HTTP heads; its size in memory is limited."""

    most: int = MOST_BYTES
    each: int = _EACH

    def keep(self, raw: bytes, parsed: T) -> None:
        if len(raw) <= LONGEST:
            self.put(raw, parsed)

    def weight(self, raw: bytes) -> int:
        """Return the approximate number of bytes that a cached head takes in memory."""
        fields, names = raw.count(b"\n"), raw.count(b",")
        return self.each + _PER_BYTE * len(raw) + _PER_FIELD * fields + _PER_NAME * names


class Fault(Exception):
    """A message that cannot be forwarded; the connection ends after the error answer.

    ``code`` is the error code of the answer; ``kind`` describes the fault in the log.
    """

    def __init__(self, kind: str, status: int = 400, code: str = "bad_request") -> None:
        super().__init__(kind)
        self.kind, self.status, self.code = kind, status, code


@define(eq=False, repr=False)
class FieldBlock:
    """The header fields of a request, and the facts derived from them.

    Requests with equal header bytes often share one block. ``noted`` stores facts that the gateway
    or the relay computes from the fields.
    """

    headers: tuple[Header, ...]
    fields: Fields
    lines: Lines
    length: int | None
    keep_alive: bool
    expects: bool
    upgrade: bytes
    named: frozenset[bytes]
    noted: Any = None  # see above; computed once for all requests that share the block

    def __repr__(self) -> str:
        """Return a representation without the values, which may be keys and tokens."""
        return f"<{len(self.headers)} fields>"


@define(eq=False, repr=False)
class RequestLine:
    """The request line; ``noted`` stores facts that the gateway or the relay computes from it."""

    method: bytes
    target: bytes
    noted: Any = None

    def __repr__(self) -> str:
        """Return a representation without the target, which may contain keys and tokens."""
        return f"<line of {self.method!r}>"


class RequestHead:
    """The head of a request. ``length`` is the length of the body, or None for a chunked body."""

    __slots__ = (
        *("block", "expects", "fields", "headers", "keep_alive", "length", "line", "method"),
        *("minor", "named", "raw", "target", "upgrade"),
    )

    def __init__(self, line: RequestLine, minor: int, block: FieldBlock, raw: bytes = b"") -> None:
        """Store the head; ``raw`` is its bytes, or empty if they must not be forwarded as is."""
        self.line, self.minor, self.block, self.raw = line, minor, block, raw
        self.method, self.target = line.method, line.target
        self.headers, self.fields, self.length = block.headers, block.fields, block.length
        self.keep_alive, self.expects = block.keep_alive, block.expects
        self.upgrade = block.upgrade  # the Upgrade field, lower case
        self.named = block.named  # the names in the Connection field

    def __repr__(self) -> str:
        """Return a representation without fields and target, which may contain secrets."""
        return f"<head of {self.method!r}>"

    @property
    def has_body(self) -> bool:
        return self.length != 0

    @property
    def is_plain(self) -> bool:
        """True if the target is a path without control characters, so that it can be forwarded."""
        return self.target.startswith(b"/") and not _CONTROL.search(self.target)

    def values(self, name: bytes) -> Sequence[bytes]:
        """Return every value of the field with this lowercase name."""
        return self.fields.get(name, ())


class ResponseHead(NamedTuple):
    """The head of an answer.

    ``length`` is None for a chunked body, -1 for a body that ends with the connection.
    """

    status: int
    reason: bytes
    headers: tuple[Header, ...]
    length: int | None
    declared: bytes | None  # Content-Length as sent; an answer to HEAD has it without a body
    keep_alive: bool
    named: frozenset[bytes]
    lines: Answers

    def __repr__(self) -> str:
        """Return a representation without the fields, which may contain tokens."""
        return f"<head of {self.status}>"


def find_end(buffer: bytes, limit: int = MAX_HEAD, searched: int = 0) -> int:
    """Return the end of the head in ``buffer``, or -1 while the head is incomplete; raises Fault.

    ``searched`` is the number of bytes that earlier calls searched without finding the end.
    """
    end = buffer.find(b"\r\n\r\n", searched - 3 if searched > 3 else 0)
    if end < 0:
        if len(buffer) > limit:
            raise Fault("head too large", 431, "headers_too_large")
        if buffer and buffer[0] in b"\r\n\t ":
            raise Fault("space or line break before the request line")
        if _BARE_LF.search(buffer, searched):
            raise Fault("bare line feed")
        return -1
    if end + 4 > limit:
        raise Fault("head too large", 431, "headers_too_large")
    return end + 4


def read_request(raw: bytes, *, passed_on: bool = True) -> RequestHead:
    """Parse a request head, which includes the empty line at its end; raises Fault.

    ``passed_on`` is False in a service that forwards nothing. Such a service accepts HTTP/1.0
    requests without Host (RFC 9112 section 3.2).
    """
    end = raw.find(b"\r\n") + 2
    first, rest = raw[:end], raw[end:]
    known, block = _LINES.get(first), _BLOCKS.get(rest)
    line = known or _usual(first)
    if line is None:
        return _unusual(raw, passed_on)
    if block is None:
        block = _block(rest, 1, passed_on)
        _require_agreement(head_agrees(raw, line.method, line.target, len(block.headers)))
        _BLOCKS.keep(rest, block)
    elif known is None:
        _require_agreement(line_agrees(first, line.method, line.target))
    if known is None and passed_on:  # a service that answers itself caches whole heads
        _LINES.keep(first, line)
    return RequestHead(line, 1, block, raw)


def _usual(first: bytes) -> RequestLine | None:
    """Parse an HTTP/1.1 request line with its CRLF; return None if it has an unusual form."""
    start = _USUAL_LINE.fullmatch(first)
    return None if start is None else RequestLine(_METHOD[start[1]], start[2])


def _unusual(raw: bytes, passed_on: bool) -> RequestHead:
    """Parse a head that is not a usual HTTP/1.1 request, or reject it; raises Fault."""
    line, _, rest = raw.partition(b"\r\n")
    start = _REQUEST_LINE.fullmatch(line)
    if start is None:
        raise Fault("request line")
    method, target, minor = start[1], start[2], int(start[3])
    block = _block(rest, minor, passed_on)
    if method in METHODS and not _CONTROL.search(target):
        _require_agreement(head_agrees(raw, method, target, len(block.headers)))
    return RequestHead(RequestLine(method, target), minor, block)


def _require_agreement(agrees: bool) -> None:
    """Raise Fault if ``agrees`` is false, which means that llhttp disagrees with this module."""
    if not agrees:
        raise Fault("second opinion")


def _block(raw: bytes, minor: int, passed_on: bool) -> FieldBlock:
    """Parse the header fields and the empty line after them; raises Fault."""
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
    """Return the path and query of a target, which may also be a whole URL.

    RFC 9112 section 3.2.2. Raises Fault if the target has no path or has a control character.
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
    """Parse the answer to a ``method`` request; raises Fault."""
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


_BLOCKS: HeadCache[FieldBlock] = HeadCache(MOST_BLOCK_BYTES)  # of HTTP/1.1 requests
_LINES: HeadCache[RequestLine] = HeadCache(MOST_LINE_BYTES, each=EACH_LINE)
_ANSWERS: tuple[HeadCache[ResponseHead], ...] = (HeadCache(), HeadCache())  # to GET, to HEAD


def _fields(raw: bytes) -> tuple[tuple[Header, ...], Fields]:
    """Parse header lines, each with its CRLF; return all fields in order, and a dict by name."""
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
        raise Fault("header line")  # there is other text between the fields
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
    return _cached_tokens(value) if len(value) <= _SHORT else _tokens_of(value)


def _tokens_of(value: bytes) -> frozenset[bytes]:
    return frozenset(part.strip().lower() for part in value.split(b","))


_cached_tokens = lru_cache(maxsize=256)(_tokens_of)  # nearly all contain the same few words
