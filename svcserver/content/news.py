"""The launcher's news, re-read when the file changes. Spec: 2 §4 Content server."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svcserver.kernel import json
from svcserver.kernel.foreign_text import plain
from svcserver.kernel.throttle import Throttle
from svcserver.kernel.times import iso

log = Logger()

CHECK_S = 2.0  # between two checks of the file; the specification allows 5 s
MAX_FILE = 4 * 1024 * 1024  # bytes
MAX_ITEMS = 50
MAX_TITLE = 200
MAX_BODY = 10_000


class BadNews(ValueError):
    """The error for a news file that is neither a list of items nor an object with such a list."""


def parse(text: bytes) -> list[dict[str, str]]:
    """Return the valid items, newest first; raises BadNews if the file itself is invalid.

    The number of invalid items is logged, so that the owner notices them.
    """
    try:
        value = json.parse(text.removeprefix(b"\xef\xbb\xbf"))
    except json.BadJson as why:
        raise BadNews(str(why)) from None
    items = value.get("items") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise BadNews("the file has no list of items")
    good = [item for item in map(_item, items) if item is not None]
    if len(good) < len(items):
        log.warn(
            "ignoring {count} of {all} news items: each item must have a date and a title",
            count=len(items) - len(good),
            all=len(items),
        )
    good.sort(key=lambda item: item[0], reverse=True)
    return [item for _, item in good[:MAX_ITEMS]]


def _item(raw: Any) -> tuple[float, dict[str, str]] | None:
    if not isinstance(raw, dict):
        return None
    when, title, body = _moment(raw.get("date")), raw.get("title"), raw.get("body", "")
    if when is None or not isinstance(title, str) or not isinstance(body, str):
        return None
    title = plain(title).strip()[:MAX_TITLE].strip()
    if not title:
        return None
    body = body.replace("\r\n", "\n")[:MAX_BODY]
    return when, {"date": iso(when), "title": title, "body": body}


def _moment(value: Any) -> float | None:
    """Return the epoch seconds of an ISO 8601 or RFC 5322 date; the default time zone is UTC."""
    if not isinstance(value, str) or not 1 <= len(value.strip()) <= 100:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(value.strip())
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
            iso(seconds)
        except (ValueError, TypeError, OverflowError, IndexError, OSError):
            continue
        return seconds
    return None


@define
class NewsFile:
    """The news in the file ``path`` (CONTENT_NEWS_FILE); if ``path`` is None, there is no news."""

    path: Path | None
    _body: bytes = field(default=b'{"items":[]}', init=False)
    _loaded_mark: tuple[int, int, int] | None = field(default=None, init=False)
    _looked_at: float | None = field(default=None, init=False)
    _unreadable: Throttle = field(factory=Throttle, init=False)

    def body(self, now: float) -> bytes:
        """Return the JSON answer.

        While the file is invalid or unreadable, the answer has the previous news.
        """
        if self.path is None:
            return self._body
        if self._looked_at is None or not 0 <= now - self._looked_at < CHECK_S:
            self._looked_at = now
            self._reload(self.path, now)
        return self._body

    def _reload(self, path: Path, now: float) -> None:
        try:
            stat = path.stat()
            mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if mark == self._loaded_mark:
                return
            self._loaded_mark = mark
            if stat.st_size > MAX_FILE:
                raise BadNews("the file is too large")
            items = parse(path.read_bytes())
        except FileNotFoundError:
            items, self._loaded_mark = [], None
        except OSError as why:  # the file may become readable without a change: try again
            self._loaded_mark = None
            if self._unreadable.due(why.errno, now):
                log.warn(
                    "the news file cannot be read, so the previous news is still shown: {why}",
                    why=str(why),
                )
            return
        except BadNews as why:
            log.warn(
                "the news file is invalid, so the previous news is still shown: {why}", why=str(why)
            )
            return
        self._body = json.dump({"items": items})
