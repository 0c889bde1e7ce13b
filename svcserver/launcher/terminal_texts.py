"""News, people and the player's own hunter as lines for the terminal; the page has cards. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def news(shown: dict[str, Any]) -> str:
    """The owner's news as the terminal prints them."""
    items = [f"{one['date'][:10]}  {one['title']}\n{one['body']}" for one in shown["news"]]
    return "\n\n".join(items) or "No news from the owner."


def people(shown: dict[str, Any]) -> str:
    """Who is online, friends first, and how one meets them."""
    friends = set(shown["hunter"].get("friends", ()))
    players = shown["status"].get("players", ())
    lines = []
    for one in sorted(players, key=lambda one: one["name"] not in friends):
        if one["name"] in friends and one["name"] != shown["username"]:
            lines.append(f"{one['name']}, your friend, {one['place']}. {one['meet']}".rstrip())
        else:
            lines.append(f"{one['name']}, {one['place']}")
    return "\n".join(lines) or "Nobody is online at the moment."


def hunter(shown: dict[str, Any]) -> str:
    """What the player has on the host."""
    mine = shown["hunter"]
    if not mine:
        return "The host tells nothing of your hunter just now."
    lines = [
        mine["profile"],
        f"guild: {mine['guild'] or 'none'}  hunt pass: {mine['huntPass'] or 'none'}",
    ]
    lines += [f"mastery  {one['name']}: {one['rank']} of {one['of']}" for one in mine["tracks"]]
    lines += [f"hunt  {when(one['at'])}  {one['title']}" for one in mine["hunts"]]
    for one in mine["characters"]:
        saves = ", ".join(map(when, one["saves"])) or "no save"
        lines.append(f"character  {one['name']}: {saves}")
    return "\n".join(lines)


def when(milliseconds: int) -> str:
    """A time of the host's in this PC's time zone; empty for one that no calendar has."""
    try:
        return f"{(_EPOCH + timedelta(milliseconds=milliseconds)).astimezone():%Y-%m-%d %H:%M}"
    except (OverflowError, ValueError, OSError):
        return ""
