"""An HTTP request as handlers and gates see it, independent of the connection."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from attrs import define, field

from svcserver.http.crosssite import foreign
from svcserver.http.heads import Fault, origin_form, read_request
from svcserver.http.peers import vouched_address
from svcserver.kernel.secrets import Secret

MAX_FIELDS = 256
PROXY_HEADERS: tuple[bytes, ...] = (
    b"x-forwarded-for",
    b"forwarded",
    b"x-real-ip",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"via",
)
"""Headers that proxies add; each marks a request as proxied, whatever its value. Spec: 1 §5.9.

A service passes further headers to its ``HttpFactory``.
"""


class Fields:
    """The header fields by lowercase name."""

    __slots__ = ("getRawHeaders", "hasHeader")

    def __init__(self, fields: Mapping[bytes, list[bytes]]) -> None:
        self.getRawHeaders = fields.get
        self.hasHeader = fields.__contains__


class ParsedHead:
    """A parsed head, shared by all requests with the same bytes. Raises Fault."""

    __slots__ = ("expects", "fields", "keep_alive", "length", "method", "path", "query", "upgrade")

    def __init__(self, raw: bytes) -> None:
        head = read_request(raw, passed_on=False)
        if len(head.headers) > MAX_FIELDS:
            raise Fault("too many fields", 431, "headers_too_large")
        self.method = head.method.decode("latin-1")
        self.path, _, self.query = origin_form(head.target).partition(b"?")
        self.fields = Fields(head.fields)
        self.length, self.keep_alive, self.expects = head.length, head.keep_alive, head.expects
        self.upgrade = head.upgrade


@define
class HttpRequest:
    """One request: its head, its whole body, and the address of the peer.

    ``method`` has the letter case that the client sent; ``path`` is the raw target without the
    query.
    """

    method: str
    path: bytes
    query: bytes = field(repr=False)
    headers: Any = field(repr=False)  # any object with getRawHeaders and hasHeader
    peer: str
    body: bytes = field(default=b"", repr=False)
    proxy_headers: tuple[bytes, ...] = field(default=PROXY_HEADERS, repr=False)
    refused: str = ""  # why the request was refused, for the counters
    hopeless: bool = False  # the answer may never come: a service that stops does not wait
    node: str = ""  # the machine whose certificate the connection has proved
    attempt: Any = None  # the attempt's id and number, if the service's gate sets them
    _arguments: list[tuple[str, str]] | None = field(default=None, init=False, repr=False)

    def header(self, name: bytes) -> str | None:
        """Return the single value of a header, or None if it is missing, empty or repeated."""
        values = self.headers.getRawHeaders(name)
        if not values or len(values) != 1 or not values[0]:
            return None
        value: bytes = values[0]
        return value.decode("utf-8", "replace")

    def has_header(self, name: bytes) -> bool:
        """Return whether the header was sent, whatever its value."""
        return bool(self.headers.hasHeader(name))

    @property
    def target(self) -> bytes:
        return self.path + (b"?" + self.query if self.query else b"")

    @property
    def proxied(self) -> bool:
        """True if any proxy forwarded the request. Spec: 1 §5.9."""
        sent = self.headers.hasHeader
        return any(sent(name) for name in self.proxy_headers)

    @property
    def direct(self) -> bool:
        """True if the request came through no proxy and not from another site's web page."""
        if self.proxied:
            self.refused = "proxied"
        else:
            self.refused = self.foreign()
        return not self.refused

    def forwarded(self, secret: Secret | None, name: bytes) -> str:
        """Return the client's address that our proxy forwarded, or "".

        The proxy must prove itself: the header called ``name`` contains ``secret``.
        """
        sent = self.headers.getRawHeaders(b"x-forwarded-for")
        if not sent:
            return ""
        addresses = [value.decode("latin-1") for value in sent]
        return vouched_address(self.peer, addresses, secret=secret, offered=self.header(name))

    def foreign(self) -> str:
        """Return the header which shows that another site's web page sent the request, or ""."""
        sent = self.headers.getRawHeaders
        return foreign(
            self.method,
            self.peer,
            hosts=sent(b"host") or (),
            origins=sent(b"origin") or (),
            sites=sent(b"sec-fetch-site") or (),
            modes=sent(b"sec-fetch-mode") or (),
            destinations=sent(b"sec-fetch-dest") or (),
        )

    def argument(self, name: str) -> str | None:
        """Return the first query argument of this name, or None."""
        values = self.arguments(name)
        return values[0] if values else None

    def arguments(self, name: str) -> list[str]:
        """Return every query argument of this name, in order."""
        if self._arguments is None:
            self._arguments = parse_query(self.query)
        return [value for key, value in self._arguments if key == name]


def without_nul(text: str) -> str:
    """Replace each NUL, which PostgreSQL rejects in text columns, with DEL."""
    return text.replace("\0", "\x7f")


def parse_query(text: bytes) -> list[tuple[str, str]]:
    """Parse a query string or form into at most 1,000 names and values."""
    try:
        pairs = parse_qsl(
            text.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=1000
        )
    except ValueError:
        return []
    return [(without_nul(name), without_nul(value)) for name, value in pairs]
