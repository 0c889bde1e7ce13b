"""News, people and the player's own hunter as lines for the terminal; the page has cards. Pure.

All of it is text of the host, which the terminal prints ``quoted``.
"""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime, timedelta
from typing import Any

from svcserver.kernel.foreign_text import visible

MARK = "  | "  # in front of every line of a host; no line of the launcher's own begins so
LEAST = 20  # characters of a line, however narrow the terminal is
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def quoted(text: str, width: int) -> list[str]:
    """The host's own words, each line marked as such and too short to be wrapped."""
    lines = []
    for line in text.split("\n"):
        safe = visible(line)
        room = width - len(MARK) if safe.isascii() else (width - len(MARK)) // 2
        lines += [f"{MARK}{piece}" for piece in textwrap.wrap(safe, max(LEAST, room)) or [""]]
    return lines


def news(shown: dict[str, Any]) -> list[str]:
    """The owner's news as the terminal prints them."""
    return [f"{one['date'][:10]}  {one['title']}\n{one['body']}\n" for one in shown["news"]]


def people(shown: dict[str, Any]) -> list[str]:
    """Who is online, friends first, and how one meets them."""
    friends = set(shown["hunter"].get("friends", ()))
    players = shown["status"].get("players", ())
    lines = []
    for one in sorted(players, key=lambda one: one["name"] not in friends):
        if one["name"] in friends and one["name"] != shown["username"]:
            lines.append(f"{one['name']}, your friend, {one['place']}. {one['meet']}".rstrip())
        else:
            lines.append(f"{one['name']}, {one['place']}")
    return lines


def hunter(shown: dict[str, Any]) -> list[str]:
    """What the player has on the host."""
    mine = shown["hunter"]
    if not mine:
        return []
    lines = [
        mine["profile"],
        f"guild: {mine['guild'] or 'none'}  hunt pass: {mine['huntPass'] or 'none'}",
    ]
    lines += [f"mastery  {one['name']}: {one['rank']} of {one['of']}" for one in mine["tracks"]]
    lines += [f"hunt  {when(one['at'])}  {one['title']}" for one in mine["hunts"]]
    for one in mine["characters"]:
        saves = ", ".join(map(when, one["saves"])) or "no save"
        lines.append(f"character  {one['name']}: {saves}")
    return lines


def when(milliseconds: int) -> str:
    """A time of the host's in this PC's time zone; empty for one that no calendar has."""
    try:
        return f"{(_EPOCH + timedelta(milliseconds=milliseconds)).astimezone():%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return ""
