"""Encountered content as it is sent and read. Spec: 1 §2 Encountered content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import AtMost, Name, whole
from svcserver.metagame.achievements.encounters.rules import MAX_ASKED, MAX_TYPE, MAX_TYPE_ASKED
from svcserver.metagame.replies import enveloped
from svcserver.web.routes import Answer

_DIGITS = re.compile(r"\d{1,4}\Z", re.ASCII)


@frozen
class Encounter:
    """Something met; types go from 0 to 7."""

    content_type: Annotated[int, whole(0, MAX_TYPE)]
    content_id: Name


@frozen
class ContentTypes:
    """Types to look up."""

    content_types: Annotated[
        tuple[Annotated[int, whole(0, MAX_TYPE_ASKED)], ...], AtMost(MAX_ASKED)
    ]


class MetContent(TypedDict):
    """What was met of one type, the oldest first."""

    content: list[str]
    content_type: int


class MetReply(TypedDict):
    """An entry for each asked type, in the asked order."""

    content_types: list[MetContent]
    success: bool


def type_in_path(text: str) -> int:
    """A content type in a path; raises Malformed."""
    if not _DIGITS.match(text):
        raise Malformed("the content type must be a number")
    return int(text)


def show(kinds: Sequence[int], found: Mapping[int, Sequence[str]]) -> Answer:
    """An entry for each asked type."""
    listed = [{"content": found.get(kind, ()), "content_type": kind} for kind in kinds]
    return enveloped({"content_types": listed, "success": True})
