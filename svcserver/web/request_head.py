"""Parsed request heads, cached by their bytes.

A client sends the same head again and again, so small heads are parsed once.
"""

from __future__ import annotations

from collections.abc import Mapping

from svcserver.http.heads import Fault, origin_form, read_request
from svcserver.http.remembered import Remembered

MAX_FIELDS = 256


class Fields:
    """Header fields by lower-case name; a dictionary's own methods, for a request asks often.

    ``getRawHeaders(name)`` gives every value of a field, or None.
    """

    __slots__ = ("getRawHeaders", "hasHeader")

    def __init__(self, fields: Mapping[bytes, list[bytes]]) -> None:
        self.getRawHeaders = fields.get
        self.hasHeader = fields.__contains__


class ParsedHead:
    """A parsed head, shared by every request with the same bytes. Raises Fault."""

    __slots__ = ("expects", "fields", "keep_alive", "length", "method", "path", "query")

    def __init__(self, raw: bytes) -> None:
        head = read_request(raw, passed_on=False)
        if len(head.headers) > MAX_FIELDS:
            raise Fault("too many fields", 431, "headers_too_large")
        self.method = head.method.decode("latin-1")
        self.path, _, self.query = origin_form(head.target).partition(b"?")
        self.fields = Fields(head.fields)
        self.length, self.keep_alive, self.expects = head.length, head.keep_alive, head.expects


class HeadCache:
    """Keeps the latest small heads by their bytes, so that one sent again is not parsed again.

    Bounded in bytes (``http/remembered.py``).
    """

    def __init__(self) -> None:
        self._known: Remembered[ParsedHead] = Remembered()

    def read(self, raw: bytes) -> ParsedHead:
        """The head whose bytes, with the empty line, are ``raw``; raises Fault."""
        asked = self._known.get(raw)
        if asked is None:
            asked = ParsedHead(raw)
            self._known.keep(raw, asked)
        return asked
