"""What a host tells: who is there, news, its pictures and colour. Asked for now and then."""

from __future__ import annotations

import re
from typing import Any

from attrs import define, field, frozen

from svcserver.kernel.foreign_text import plain
from svcserver.kernel.secrets import Secret
from svcserver.launcher.accounts import general, lost
from svcserver.launcher.asking import HostClient, Lost
from svcserver.launcher.words import MASTERY, meeting, place, profile, track_name

MOST_NEWS, MOST_PLAYERS, MOST_PICTURES = 20, 500, 3
LONGEST = 4_000  # characters of a text that is shown
MOST_PICTURE = 8 * 1024 * 1024  # bytes of a picture; the first few are kept
NEWS_EVERY_S, HUNTER_EVERY_S = 300.0, 60.0
MOST_TRACKS, MOST_CHARACTERS, MOST_SAVES, MOST_HUNTS = 64, 20, 10, 10
LEVEL = f"{MASTERY}PlayerLevel"  # the player's own, beside those of weapons and the like
_ACCENT = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})\Z")
_PICTURE = re.compile(r"/content/v1/branding/[A-Za-z0-9_.-]{1,100}\Z")
_KINDS = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"))


@frozen
class Picture:
    """A picture that the page shows for the host; ``kind`` is its media type, as its bytes say."""

    body: bytes = field(repr=False)
    kind: str
    credit: str


@define
class HostNews:
    """The last answers of one host."""

    reachable: bool | None = None  # None: not asked yet
    why: str = ""  # what is wrong, as the player reads it
    known: bool | None = None  # whether the host knows our key
    status: dict[str, Any] = field(factory=dict)
    announced: str = ""  # what the owner announces just now
    news: list[dict[str, str]] = field(factory=list)
    accent: str = ""
    pictures: list[Picture] = field(factory=list)
    content_port: int = 0
    hunter: dict[str, Any] = field(factory=dict)  # empty: the host tells nothing of it
    _hunter_at: float = field(default=-NEWS_EVERY_S, init=False)
    _news_at: float = field(default=-NEWS_EVERY_S, init=False)
    _picture_names: list[str] = field(factory=list, init=False)

    async def ask(self, client: HostClient, key: Secret | None) -> None:
        """Who is there, and what is announced; raises nothing."""
        try:
            reply = await client.ask("GET", "/svc/api/ServerStatus", key=key, patience_s=10.0)
            banner = await client.ask("GET", "/svc-status", patience_s=10.0)
        except Lost as why:
            self.reachable, self.why = False, lost(why)
            return
        said, shown = reply.json, banner.json
        banners = shown if banner.status == 200 and isinstance(shown, dict) else {}
        if reply.status == 404 and banners:  # an older host, which tells nothing of its players
            said = {"name": banners.get("name"), "limited": key is None}
        elif reply.status != 200 or not isinstance(said, dict):
            self.reachable, self.why = False, general(reply)
            return
        self.reachable, self.why = True, ""
        self.status, self.announced = read_status(said), announcement(banners)
        self.known = None if key is None else said.get("limited") is not True
        port = said.get("contentPort")
        self.content_port = port if type(port) is int and 0 < port < 65536 else 0

    async def ask_hunter(self, client: HostClient, key: Secret, now: float) -> None:
        """What the player has there, once a minute; raises nothing."""
        if now - self._hunter_at < HUNTER_EVERY_S:
            return
        self._hunter_at = now
        try:
            reply = await client.ask("GET", "/launcher/hunter", key=key)
        except Lost:
            return
        said = reply.json
        self.hunter = read_hunter(said) if reply.status == 200 and isinstance(said, dict) else {}

    async def ask_content(self, client: HostClient, now: float) -> None:
        """News and branding, where they are old; raises nothing."""
        if now - self._news_at < NEWS_EVERY_S:
            return
        self._news_at = now
        try:
            self.news = read_news((await client.ask("GET", "/content/v1/news")).json)
            branding = (await client.ask("GET", "/content/v1/branding")).json
            self.accent, wanted = read_branding(branding)
            names = [name for name, _ in wanted]
            if names != self._picture_names:
                self.pictures = [
                    found
                    for name, credit in wanted
                    if (found := await self._picture(client, name, credit)) is not None
                ]
                self._picture_names = names
        except Lost:
            self._news_at = now - NEWS_EVERY_S + 30

    async def _picture(self, client: HostClient, name: str, credit: str) -> Picture | None:
        reply = await client.ask("GET", name, limit=MOST_PICTURE)
        kind = picture_kind(reply.body)
        return Picture(reply.body, kind, credit) if reply.status == 200 and kind else None


def picture_kind(body: bytes) -> str:
    """The media type by the first bytes; empty for anything else."""
    for start, kind in _KINDS:
        if body.startswith(start):
            return kind
    return "image/webp" if body[:4] == b"RIFF" and body[8:12] == b"WEBP" else ""


def announcement(banner: dict[str, Any]) -> str:
    """What the host's banner says besides a welcome."""
    text = _text(banner.get("en"), LONGEST)
    return "" if text == f"Welcome to {banner.get('name')}!" else text


def read_status(said: dict[str, Any]) -> dict[str, Any]:
    """What is shown of a status answer, every value of the right kind."""
    instances = {
        _text(one.get("id"), 64): (
            _text(one.get("title"), 120),
            _whole(one, "players"),
            _whole(one, "maxPlayers"),
        )
        for one in _objects(said.get("instances"))[:MOST_PLAYERS]
    }
    nowhere = "", 0, 0
    players = [
        {
            "name": _text(one.get("name"), 64),
            "place": place(where := _text(one.get("where"), 16)),
            "meet": meeting(where, *instances.get(_text(one.get("instance"), 64), nowhere)),
        }
        for one in _objects(said.get("players"))[:MOST_PLAYERS]
    ]
    return {
        "name": _text(said.get("name"), 64),
        "version": _text(said.get("version"), 64),
        "registration": _text(said.get("registration"), 16),
        "online": _whole(said, "playersOnline"),
        "players": players,
    }


def read_hunter(said: dict[str, Any]) -> dict[str, Any]:
    """What is shown of the player's own data, every value of the right kind."""
    hunts = [
        {"title": _text(one.get("title"), 128), "at": _whole(one, "at")}
        for one in _objects(said.get("hunts"))[:MOST_HUNTS]
    ]
    tracks: list[dict[str, Any]] = [
        {
            "name": track_name(_text(one.get("id"), 128)),
            "rank": _whole(one, "rank"),
            "of": _whole(one, "maxRank"),
        }
        for one in _objects(said.get("tracks"))[:MOST_TRACKS]
    ]
    characters: list[dict[str, Any]] = [
        {
            "name": _text(one.get("name"), 64),
            "saves": [_whole(save, "savedAt") for save in _objects(one.get("saves"))[:MOST_SAVES]],
        }
        for one in _objects(said.get("characters"))[:MOST_CHARACTERS]
    ]
    return {
        "profile": _profile(said, [one["name"] for one in characters]),
        "guild": _text(said.get("guild"), 64),
        "huntPass": _hunt_pass(track_name(_text(said.get("huntPass"), 128)), tracks),
        "tracks": tracks,
        "hunts": hunts,
        "characters": characters,
        "friends": [_text(one, 64) for one in _list(said, "friends")[:MOST_PLAYERS]],
    }


def _profile(said: dict[str, Any], characters: list[str]) -> str:
    """The player in one line."""
    masteries = {
        name: _whole(one, "rank")
        for one in _objects(said.get("tracks"))[:MOST_TRACKS]
        if (name := _text(one.get("id"), 128)).startswith(MASTERY)
    }
    return profile(
        _text(said.get("username"), 64),
        masteries.pop(LEVEL, 0),
        characters,
        sum(masteries.values()),
        len(_list(said, "entitlements")),
        len(_list(said, "friends")),
    )


def _hunt_pass(name: str, tracks: list[dict[str, Any]]) -> str:
    """The pass with the rank reached in it, where the host tells that."""
    reached = next((one for one in tracks if name and one["name"] == name), None)
    return name if reached is None else f"{name}, {reached['rank']} of {reached['of']}"


def read_news(said: Any) -> list[dict[str, str]]:
    """The items of a news answer."""
    items = _objects(said.get("items")) if isinstance(said, dict) else []
    return [
        {
            "date": _text(one.get("date"), 40),
            "title": _text(one.get("title"), 200),
            "body": "\n".join(_text(line, LONGEST) for line in _body(one).split("\n")),
        }
        for one in items[:MOST_NEWS]
    ]


def _body(item: dict[str, Any]) -> str:
    body = item.get("body")
    return body[:LONGEST] if isinstance(body, str) else ""


def read_branding(said: Any) -> tuple[str, list[tuple[str, str]]]:
    """The accent colour, and path and credit of the first pictures."""
    if not isinstance(said, dict):
        return "", []
    accent = said.get("accent")
    pictures = [
        (one["url"], _text(one.get("credit"), 200))
        for one in _objects(said.get("backgrounds"))
        if isinstance(one.get("url"), str) and _PICTURE.match(one["url"]) and ".." not in one["url"]
    ]
    good = isinstance(accent, str) and _ACCENT.match(accent)
    return (accent if good else "") or "", pictures[:MOST_PICTURES]


def _list(said: dict[str, Any], name: str) -> list[Any]:
    value = said.get(name)
    return value if isinstance(value, list) else []


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _whole(said: dict[str, Any], name: str) -> int:
    value = said.get(name)
    return value if type(value) is int and 0 <= value < 2**53 else 0


def _text(value: Any, longest: int) -> str:
    """A text in one line, without what steers a terminal or turns what follows."""
    return plain(value[:longest]) if isinstance(value, str) else ""
