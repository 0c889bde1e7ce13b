"""The heads that the proxy sends: without hop-by-hop fields, with the proxy's own framing.

Spec: 2 §4 Gateway, headers.
"""

from collections.abc import Sequence
from functools import lru_cache

from svcserver.edge.verdicts import Forward, ProxyPolicy, Refuse
from svcserver.http.connection import CLOSE
from svcserver.http.heads import Header, RequestHead, ResponseHead
from svcserver.kernel.headers import ATTEMPT

HOP_BY_HOP = frozenset(
    [
        b"connection",
        b"keep-alive",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",  # not hop-by-hop, but always rewritten
    ]
)
_NEVER_DROPPED = frozenset([b"host"])  # a Connection field cannot remove these
MOST_NAMED = 4  # with more names in the Connection field, the result is not cached
_ATTEMPT = ATTEMPT + b": %d\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_AS_SENT = b"as sent"  # compared by identity; avoids a second copy of the head's bytes
_UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
_REASONS = {
    200: b"OK",
    400: b"Bad Request",
    403: b"Forbidden",
    405: b"Method Not Allowed",
    408: b"Request Timeout",
    413: b"Content Too Large",
    417: b"Expectation Failed",
    429: b"Too Many Requests",
    431: b"Request Header Fields Too Large",
    501: b"Not Implemented",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
    504: b"Gateway Timeout",
}


def request_head(
    head: RequestHead, forward: Forward, policy: ProxyPolicy, *, attempt: int = 1
) -> bytes:
    """Return the request's head for the upstream.

    If ``attempt`` is above 1, a header tells the upstream this number, because an earlier attempt
    may have been executed.
    """
    lines = head.block.lines.get(policy.dropped)
    if lines is None:
        lines = head.block.lines[policy.dropped] = _fields_to_pass_on(head, policy.dropped)
    framing = b""
    if forward.tunnel:
        framing = _UPGRADE
    elif head.length is None:
        framing = _CHUNKED
    elif head.length or b"content-length" in head.fields:
        framing = b"Content-Length: %d\r\n" % head.length
    if attempt > 1:
        framing += _ATTEMPT % attempt
    if lines is _AS_SENT:
        return b"".join((head.raw[:-2], forward.added, framing, b"\r\n"))
    return b"%b %b HTTP/1.1\r\n%b%b%b\r\n" % (
        head.method,
        head.target,
        lines,
        forward.added,
        framing,
    )


def _fields_to_pass_on(head: RequestHead, dropped: frozenset[bytes]) -> bytes:
    """Return the fields to forward, or ``_AS_SENT`` if they are the same bytes as received."""
    lines = _join_fields(head.headers, dropped, head.named)
    return _AS_SENT if head.raw.partition(b"\r\n")[2] == lines + b"\r\n" else lines


def answer_head(
    answer: ResponseHead, hidden: frozenset[bytes], *, framed: bool, close: bool
) -> bytes:
    """Return the answer's head for the client; ``framed`` means a chunked body."""
    key = (hidden, framed, close)
    head = answer.lines.get(key)
    if head is None:
        head = answer.lines[key] = _answer_head(answer, hidden, framed, close)
    return head


def _answer_head(
    answer: ResponseHead, hidden: frozenset[bytes], framed: bool, close: bool
) -> bytes:
    parts = [
        b"HTTP/1.1 %d %b\r\n" % (answer.status, answer.reason),
        _join_fields(answer.headers, hidden, answer.named),
    ]
    if answer.status == 101:
        parts.append(_UPGRADE)
    elif framed:
        parts.append(_CHUNKED)
    elif answer.declared is not None:
        parts.append(b"Content-Length: %b\r\n" % answer.declared)
    if close:
        parts.append(CLOSE)
    parts.append(b"\r\n")
    return b"".join(parts)


def refusal(refuse: Refuse, *, with_body: bool, close: bool) -> bytes:
    """Return a complete error answer of the proxy itself."""
    body = refuse.body()
    lines = refuse.page.lines if refuse.page is not None else b"Content-Type: application/json\r\n"
    head = b"HTTP/1.1 %d %b\r\n%bContent-Length: %d\r\n" % (
        refuse.status,
        _REASONS.get(refuse.status, b"Refused"),
        lines,
        len(body),
    )
    if refuse.retry_after_s is not None:
        head += b"Retry-After: %d\r\n" % refuse.retry_after_s
    if refuse.status == 405:
        head += b"Allow: GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS\r\n"
    if close:
        head += CLOSE
    return head + b"\r\n" + (body if with_body else b"")


def _join_fields(
    headers: Sequence[Header], dropped: frozenset[bytes], named: frozenset[bytes]
) -> bytes:
    # do not cache long lists, which only attackers send: they would fill the cache
    removed = (_cached_removed if len(named) <= MOST_NAMED else _removed)(dropped, named)
    return b"".join(
        [
            b"%b: %b\r\n" % (name, value)
            for name, lower, value in headers
            if lower not in removed and not lower.startswith(b"proxy-")
        ]
    )


def _removed(dropped: frozenset[bytes], named: frozenset[bytes]) -> frozenset[bytes]:
    return HOP_BY_HOP | dropped | (named - _NEVER_DROPPED)


_cached_removed = lru_cache(maxsize=256)(_removed)  # most messages list the same few fields
