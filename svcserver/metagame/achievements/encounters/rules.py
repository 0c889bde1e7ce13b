"""What content a character can meet. Spec: 1 §2 Encountered content."""

from __future__ import annotations

import re

from svcserver.kernel.refusals import Malformed

MAX_TYPE = 7
MAX_TYPE_ASKED = 9999  # four digits, as in a path
MAX_ASKED = 1000
_DIGITS = re.compile(r"\d{1,4}\Z", re.ASCII)


def type_in_path(text: str) -> int:
    """A content type in a path; raises Malformed."""
    if not _DIGITS.match(text):
        raise Malformed("the content type must be a number")
    return int(text)
