"""What content a character can meet. Spec: 1 §2 Encountered content."""

from __future__ import annotations

import re

from svcserver.kernel.json import Json
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Malformed

MAX_TYPE = 7
MAX_ASKED = 1000
_DIGITS = re.compile(r"\d{1,4}\Z", re.ASCII)


def type_in_path(text: str) -> int:
    """A content type in a path; raises Malformed."""
    if not _DIGITS.match(text):
        raise Malformed("the content type must be a number")
    return int(text)


def types_asked(body: Json) -> list[int]:
    """The asked types in order; raises Malformed."""
    listed = body.get("content_types") if isinstance(body, dict) else None
    if not isinstance(listed, list) or len(listed) > MAX_ASKED:
        raise Malformed("content_types must be a list")
    if not all(type(one) is int and 0 <= one < 10_000 for one in listed):
        raise Malformed("content_types must hold numbers")
    return listed


def encounter(body: Json) -> tuple[int, str]:
    """The type and id a character met; raises Malformed."""
    sent = body if isinstance(body, dict) else {}
    kind, name = sent.get("content_type"), sent.get("content_id")
    if type(kind) is not int or not 0 <= kind <= MAX_TYPE or not is_name(name):
        raise Malformed("content_type 0 to 7 and a content_id")
    return kind, str(name)
