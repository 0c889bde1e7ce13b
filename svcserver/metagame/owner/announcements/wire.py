"""Request and reply shapes of announcements."""

from __future__ import annotations

from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.shapes import Moment, pascal_case, spelled, text
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.owner.announcements.rules import MAX_TEXT, Announcement

Span = Annotated[str, text(0, 16)]


@spelled(pascal_case)
@frozen
class AnnouncementWish:
    """The text (empty: end what is announced), and lengths of time like ``10m``."""

    text: Annotated[str, text(0, MAX_TEXT)] = ""
    for_: Span = ""
    restart_in: Span = ""
    reason: Reason = ""


class AnnouncementEntry(TypedDict):
    """What is announced, by whom, until when, and when the server restarts."""

    text: str
    by: str
    since: Moment
    until: Moment
    restartAt: Moment | None


class AnnouncementReply(TypedDict):
    """What is announced; null for nothing."""

    announcement: AnnouncementEntry | None


def described(one: Announcement | None) -> AnnouncementEntry | None:
    """As the audit log and replies show it."""
    if one is None:
        return None
    return {
        "text": one.text,
        "by": one.made_by,
        "since": iso(one.made_at / 1000),
        "until": iso(one.ends_at / 1000),
        "restartAt": None if one.restart_at is None else iso(one.restart_at / 1000),
    }


def show(one: Announcement | None) -> AnnouncementReply:
    """The reply on what is announced now."""
    return {"announcement": described(one)}
