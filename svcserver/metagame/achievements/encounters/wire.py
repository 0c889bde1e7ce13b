"""Request and reply shapes of encountered content. Spec: 1 §4 Encountered content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from attrs import frozen

from svcserver.kernel.envelope import envelope
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import AtMost, Name, whole
from svcserver.metagame.achievements.encounters.rules import MAX_ASKED, MAX_TYPE, MAX_TYPE_ASKED

_DIGITS = re.compile(r"\d{1,4}\Z", re.ASCII)


@frozen
class Encounter:
    """Content to add; types go from 0 to 7."""

    content_type: Annotated[int, whole(0, MAX_TYPE)]
    content_id: Name


@frozen
class ContentTypes:
    """Which types to list, 1,000 at most; one above 7, which no content has, lists nothing."""

    content_types: Annotated[
        tuple[Annotated[int, whole(0, MAX_TYPE_ASKED)], ...], AtMost(MAX_ASKED)
    ]


class MetContent(TypedDict):
    """What a character has met of one type of content, the first met first."""

    content: list[str]
    content_type: int


class MetReply(TypedDict):
    """What a character has met: an entry for each type asked for, in the order of the request."""

    content_types: list[MetContent]
    success: bool


def type_in_path(text: str) -> int:
    """A content type in a path; raises Malformed."""
    if not _DIGITS.match(text):
        raise Malformed("the content type must be a number")
    return int(text)


def show(kinds: Sequence[int], found: Mapping[int, Sequence[str]]) -> dict[str, Any]:
    """The reply for the types ``kinds``."""
    listed = [{"content": found.get(kind, ()), "content_type": kind} for kind in kinds]
    return envelope({"content_types": listed, "success": True})
