"""The rules of announcements: limits, and the texts and times of the countdown to a restart."""

import math

from attrs import frozen

from svcserver.kernel.foreign_text import NOT_PLAIN, is_plain
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.times import seconds_of

MAX_TEXT = 256
SHOWN_S = 3_600  # default display time of an announcement
MOST_S = 7 * 86_400
MARKS = (
    1_800,
    600,
    300,
    120,
    60,
    30,
    10,
)  # seconds before a restart at which the chat announces it
RESTART = {  # the same eight languages as the banner
    "en": "Restart in {time}.",
    "fr": "Redémarrage dans {time}.",
    "it": "Riavvio tra {time}.",
    "es": "Reinicio en {time}.",
    "de": "Neustart in {time}.",
    "pt": "Reinício em {time}.",
    "ru": "Перезапуск через {time}.",
    "ja": "あと{time}で再起動します。",
}


@frozen
class NewAnnouncement:
    """An announcement to show for ``shown_s``; it can announce a restart in ``restart_s``."""

    text: str
    shown_s: int
    restart_s: int | None = None


@frozen
class Announcement:
    """An announcement; times are in epoch milliseconds, and ``made_at`` also serves as its id."""

    text: str
    made_by: str
    made_at: int
    ends_at: int
    restart_at: int | None = None

    def holds(self, now: float) -> bool:
        """Return whether the announcement is still shown at ``now`` (epoch seconds)."""
        return now * 1000 < self.ends_at

    def left_s(self, now: float) -> int | None:
        """Return the seconds until the restart, rounded up, or None if no restart is planned."""
        if self.restart_at is None or self.restart_at <= now * 1000:
            return None
        return math.ceil(self.restart_at / 1000 - now)


def new_announcement(text: str, shown: str, restart_in: str) -> NewAnnouncement:
    """Return the request parsed from the text and the two durations; raises Malformed."""
    plain = " ".join(text.split())
    if not 1 <= len(plain) <= MAX_TEXT or not is_plain(plain):
        raise Malformed(
            f"an announcement must have 1 to {MAX_TEXT} characters, without {NOT_PLAIN}",
            code="bad_request",
        )
    restart_s = _span(restart_in) if restart_in else None
    shown_s = restart_s or (_span(shown) if shown else SHOWN_S)
    return NewAnnouncement(plain, shown_s, restart_s)


def announced(request: NewAnnouncement, by: str, at: float) -> Announcement:
    """Return the announcement published at ``at`` (epoch seconds)."""
    now = round(at * 1000)
    restart_at = None if request.restart_s is None else now + request.restart_s * 1000
    return Announcement(request.text, by, now, now + request.shown_s * 1000, restart_at)


def in_language(announcement: Announcement, language: str, now: float) -> str:
    """Return the announcement's text for the banner, with the time left until a restart."""
    left = announcement.left_s(now)
    if left is None:
        return announcement.text
    return f"{announcement.text} {RESTART[language].format(time=_time(left))}"


def due(
    announcement: Announcement, last_mark: int | None, now: float
) -> tuple[str | None, int | None]:
    """Return the chat line that is due now (or None), and the last mark that the countdown reached.

    A mark is one of ``MARKS``, the times before the restart at which a line is sent. ``last_mark``
    is the mark of the last line sent, or None if no line has been sent.
    """
    left = announcement.left_s(now)
    if last_mark is None:
        return in_language(announcement, "en", now), min(
            (mark for mark in MARKS if left is not None and mark >= left), default=MARKS[0] + 1
        )
    if left is None:
        return None, last_mark
    reached = min((mark for mark in MARKS if left <= mark < last_mark), default=None)
    if reached is None:
        return None, last_mark
    return RESTART["en"].format(time=_time(left)), reached


def _span(text: str) -> int:
    seconds = seconds_of(text)
    if seconds is None or seconds > MOST_S:
        raise Malformed(
            f"{text[:16]!r} is not a duration. Use 30s, 10m or 2h, up to 7d",
            code="bad_request",
        )
    return seconds


def _time(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
