"""The heads of HTTP/1.1 messages, read so that no two readings are possible.

Our own check of the raw bytes comes first; only what passes it is shown to llhttp, and
the two must agree. What is stricter than RFC 9112 asks is so because the bytes go on to
another server, which must never see another message than we did. Spec: 2 §7 Gateway.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import httptools
from attrs import define, field

from svcserver.http.remembered import Remembered

MAX_HEAD = 16 * 1024  # bytes of a request head
MAX_RESPONSE_HEAD = 64 * 1024
METHODS = frozenset([b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"PATCH", b"OPTIONS"])

Header = tuple[bytes, bytes, bytes]  # name as sent, name in lower case, value
Lines = dict[frozenset[bytes], bytes]  # how a head is passed on, by the fields that are left out

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
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
_SPECIAL = frozenset(
    [b"content-length", b"transfer-encoding", b"host", b"connection", b"upgrade", b"expect"]
)


class Fault(Exception):
    """A message that cannot be passed on; the connection ends with the answer.

    ``code`` is the machine word of the refusal, ``kind`` says what is wrong for the log.
    """

    def __init__(self, kind: str, status: int = 400, code: str = "bad_request") -> None:
        super().__init__(kind)
        self.kind, self.status, self.code = kind, status, code


class RequestHead(NamedTuple):
    """A request as far as the empty line. ``length`` is None for a chunked body.

    The same bytes have the same head, often the same object.
    """

    raw: bytes
    method: bytes
    target: bytes
    minor: int
    headers: tuple[Header, ...]
    lines: Lines
    length: int | None = 0
    keep_alive: bool = True
    expects: bool = False
    upgrade: bytes = b""  # the Upgrade field, lower case
    named: frozenset[bytes] = frozenset()  # what the Connection field names

    def __repr__(self) -> str:
        """Without what it says: its fields and its target may hold keys and tokens."""
        return f"<head of {self.method!r}>"

    @property
    def has_body(self) -> bool:
        """Whether bytes follow the head."""
        return self.length != 0

    @property
    def is_plain(self) -> bool:
        """Whether the target is a path, and free of control characters; never pass on others."""
        return self.target.startswith(b"/") and not _CONTROL.search(self.target)

    def values(self, name: bytes) -> list[bytes]:
        """Every value of the field with that lower-case name."""
        return [value for _, lower, value in self.headers if lower == name]


class ResponseHead(NamedTuple):
    """An answer as far as the empty line; ``length`` None: chunked, -1: until the end."""

    raw: bytes
    status: int
    reason: bytes
    headers: tuple[Header, ...]
    length: int | None
    declared: bytes | None  # the Content-Length field itself, which HEAD answers keep
    keep_alive: bool
    named: frozenset[bytes]
    lines: Lines

    def __repr__(self) -> str:
        """Without its fields, likewise."""
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
    if not passed_on:  # a service remembers more: web/request_head.py
        return _request(raw, passed_on)
    head = _REQUESTS.get(raw)
    if head is None:
        head = _request(raw)
        _REQUESTS.keep(raw, head)
    return head


def _request(raw: bytes, passed_on: bool = True) -> RequestHead:
    line, _, rest = raw.partition(b"\r\n")
    start = _REQUEST_LINE.fullmatch(line)
    if start is None:
        raise Fault("request line")
    method, target, minor = start[1], start[2], int(start[3])
    headers, special = _fields(rest[:-2])
    hosts = special.get(b"host", ())
    if (hosts or minor == 1 or passed_on) and not _is_one_host(hosts):
        raise Fault("host")
    named = _tokens(special.get(b"connection", ()))
    length = _request_length(special, minor)
    if method in METHODS and not _CONTROL.search(target):
        # the rest is refused on the head alone: see RequestHead.is_plain
        _second_opinion(raw, method, target, len(headers))
    return RequestHead(
        raw,
        method,
        target,
        minor,
        headers,
        {},
        length,
        keep_alive=minor == 1 and b"close" not in named,
        expects=_expects(special, minor),
        upgrade=b",".join(special.get(b"upgrade", ())).strip().lower(),
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
    headers, special = _fields(rest[:-2])
    named = _tokens(special.get(b"connection", ()))
    lengths = special.get(b"content-length", [])
    length: int | None = _response_length(special, minor)
    bare = to_head or status < 200 or status in (204, 304)
    keep = b"close" not in named and (minor == 1 or b"keep-alive" in named)
    return ResponseHead(
        raw,
        status,
        start[3] or b"",
        headers,
        0 if bare else length,
        lengths[0] if lengths and status >= 200 and status != 204 else None,
        keep and (bare or length != -1),
        named,
        {},
    )


_REQUESTS: Remembered[RequestHead] = Remembered()
_ANSWERS: tuple[Remembered[ResponseHead], ...] = (Remembered(), Remembered())  # to GET, to HEAD


def _fields(raw: bytes) -> tuple[tuple[Header, ...], dict[bytes, list[bytes]]]:
    """Header lines, each with its CRLF; and the values of those that steer the framing."""
    headers: list[Header] = []
    special: dict[bytes, list[bytes]] = {}
    left = len(raw)
    for name, value in _FIELD.findall(raw):
        left -= len(name) + len(value) + 3  # with the colon and the line end
        lower = name.lower()
        value = value.strip(b" \t")
        headers.append((name, lower, value))
        if lower in _SPECIAL:
            special.setdefault(lower, []).append(value)
    if left:
        raise Fault("header line")  # something stands between the fields
    return tuple(headers), special


def _request_length(special: dict[bytes, list[bytes]], minor: int) -> int | None:
    lengths = special.get(b"content-length")
    codings = special.get(b"transfer-encoding")
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


def _response_length(special: dict[bytes, list[bytes]], minor: int) -> int | None:
    if b"transfer-encoding" not in special and b"content-length" not in special:
        return -1
    return _request_length(special, minor)


def _is_one_host(values: Sequence[bytes]) -> bool:
    return len(values) == 1 and _HOST.fullmatch(values[0]) is not None


def _expects(special: dict[bytes, list[bytes]], minor: int) -> bool:
    values = special.get(b"expect")
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
    """What llhttp understood."""

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
