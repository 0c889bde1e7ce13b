"""Parses request bodies: JSON or a form, by Content-Type."""

from __future__ import annotations

from svcserver.kernel import json
from svcserver.kernel.refusals import TooLarge
from svcserver.web.request import HttpRequest, parse_query

MAX_FORM = 100 * 1024  # bytes; the original web framework's default. Spec: 1 §4 convention 3


def parse(request: HttpRequest) -> json.Json:
    """The body as JSON or form, by its Content-Type. Raises ``json.BadJson``."""
    if not request.body:
        return {}
    kind = request.header(b"content-type")
    if kind is not None and kind.lower().startswith("application/x-www-form-urlencoded"):
        if len(request.body) > MAX_FORM:
            raise TooLarge("the form is too large")
        return dict(parse_query(request.body))
    return json.parse(request.body)
