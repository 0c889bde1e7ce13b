"""A host's status: players online, news, pictures and colour, polled regularly."""

import re
from typing import Any

from attrs import define, field, frozen

from svcserver.kernel.foreign_text import plain
from svcserver.kernel.secrets import Secret
from svcserver.launcher.accounts import explain_no_reply, general
from svcserver.launcher.host_client import HostClient, NoReply
from svcserver.launcher.words import MASTERY, meeting, place, profile, track_name

MOST_NEWS, MOST_PLAYERS, MOST_PICTURES = 20, 500, 3
LONGEST = 4_000  # characters of a text
MOST_PICTURE = 8 * 1024 * 1024  # bytes of a picture; the first few are kept
NEWS_EVERY_S, HUNTER_EVERY_S = 300.0, 60.0
MOST_TRACKS, MOST_CHARACTERS, MOST_SAVES, MOST_HUNTS = 64, 20, 10, 10
LEVEL = f"{MASTERY}PlayerLevel"  # the mastery of the player, not of a weapon
_ACCENT = re.compile(r"#(?:[0-9a-f]{3}|[0-9a-f]{6})\Z")
_PICTURE = re.compile(r"/content/v1/branding/[A-Za-z0-9_.-]{1,100}\Z")
_KINDS = ((b"\xff\xd8\xff", "image/jpeg"), (b"\x89PNG\r\n\x1a\n", "image/png"))


@frozen
class Picture:
    """A picture from the host; ``kind`` is its media type, detected from its bytes."""

    body: bytes = field(repr=False)
    kind: str
    credit: str


@define
class HostNews:
    """The latest replies of one host: its status, the player's own data, news and branding."""

    reachable: bool | None = None  # None: not polled yet
    wrong_certificate: bool = False  # the last poll found one, and sent no request
    why: str = ""  # the fault, as the player reads it
    known: bool | None = None  # whether the host knows the player's key
    status: dict[str, Any] = field(factory=dict)
    announced: str = ""  # the owner's current announcement
    news: list[dict[str, str]] = field(factory=list)
    accent: str = ""
    pictures: list[Picture] = field(factory=list)
    content_port: int = 0
    hunter: dict[str, Any] = field(factory=dict)  # empty: the host has no data
    _hunter_at: float = field(default=-NEWS_EVERY_S, init=False)
    _news_at: float = field(default=-NEWS_EVERY_S, init=False)
    _picture_names: list[str] = field(factory=list, init=False)

    async def poll_host(self, client: HostClient, key: Secret | None) -> None:
        """Poll the status and the announcement; never raises."""
        try:
            reply = await client.fetch_reply(
                "GET", "/svc/api/ServerStatus", key=key, patience_s=10.0
            )
            banner = await client.fetch_reply("GET", "/svc-status", patience_s=10.0)
        except NoReply as error:
            self.reachable, self.why = False, explain_no_reply(error)
            self.wrong_certificate = error.code == "certificate_mismatch"
            return
        self.wrong_certificate = False
        status, banner_data = reply.json, banner.json
        banners = banner_data if banner.status == 200 and isinstance(banner_data, dict) else {}
        if reply.status == 404 and banners:  # an older host, which has no list of players
            status = {"name": banners.get("name"), "limited": key is None}
        elif reply.status != 200 or not isinstance(status, dict):
            self.reachable, self.why = False, general(reply)
            return
        self.reachable, self.why = True, ""
        self.status, self.announced = read_status(status), announcement(banners)
        self.known = None if key is None else status.get("limited") is not True
        port = status.get("contentPort")
        self.content_port = port if type(port) is int and 0 < port < 65536 else 0

    async def ask_hunter(self, client: HostClient, key: Secret, now: float) -> None:
        """Poll the player's own data, at most once a minute; never raises."""
        if now - self._hunter_at < HUNTER_EVERY_S:
            return
        self._hunter_at = now
        try:
            reply = await client.fetch_reply("GET", "/launcher/hunter", key=key)
        except NoReply:
            return
        data = reply.json
        self.hunter = read_hunter(data) if reply.status == 200 and isinstance(data, dict) else {}

    async def ask_content(self, client: HostClient, now: float) -> None:
        """Poll news and branding if the last replies are old; never raises."""
        if now - self._news_at < NEWS_EVERY_S:
            return
        self._news_at = now
        try:
            self.news = read_news((await client.fetch_reply("GET", "/content/v1/news")).json)
            branding = (await client.fetch_reply("GET", "/content/v1/branding")).json
            self.accent, wanted = read_branding(branding)
            names = [name for name, _ in wanted]
            if names != self._picture_names:
                self.pictures = [
                    picture
                    for name, credit in wanted
                    if (picture := await self._picture(client, name, credit)) is not None
                ]
                self._picture_names = names
        except NoReply:
            self._news_at = now - NEWS_EVERY_S + 30

    async def _picture(self, client: HostClient, name: str, credit: str) -> Picture | None:
        reply = await client.fetch_reply("GET", name, limit=MOST_PICTURE)
        kind = picture_kind(reply.body)
        return Picture(reply.body, kind, credit) if reply.status == 200 and kind else None


def picture_kind(body: bytes) -> str:
    """Return the media type of a picture by its first bytes; empty if it is unknown."""
    for start, kind in _KINDS:
        if body.startswith(start):
            return kind
    return "image/webp" if body[:4] == b"RIFF" and body[8:12] == b"WEBP" else ""


def announcement(banner: dict[str, Any]) -> str:
    """Return the host's banner text, or "" if it is the default welcome."""
    text = _text(banner.get("en"), LONGEST)
    return "" if text == f"Welcome to {banner.get('name')}!" else text


def read_status(status: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a status reply that the launcher shows; invalid values become defaults."""
    instances = {
        _text(entry.get("id"), 64): (
            _text(entry.get("title"), 120),
            _whole(entry, "players"),
            _whole(entry, "maxPlayers"),
        )
        for entry in _objects(status.get("instances"))[:MOST_PLAYERS]
    }
    nowhere = "", 0, 0
    players = [
        {
            "name": _text(entry.get("name"), 64),
            "place": place(where := _text(entry.get("where"), 16)),
            "meet": meeting(where, *instances.get(_text(entry.get("instance"), 64), nowhere)),
        }
        for entry in _objects(status.get("players"))[:MOST_PLAYERS]
    ]
    return {
        "name": _text(status.get("name"), 64),
        "version": _text(status.get("version"), 64),
        "registration": _text(status.get("registration"), 16),
        "online": _whole(status, "playersOnline"),
        "players": players,
    }


def read_hunter(data: dict[str, Any]) -> dict[str, Any]:
    """Return the player's data that the launcher shows; invalid values become defaults."""
    hunts = [
        {"title": _text(entry.get("title"), 128), "at": _whole(entry, "at")}
        for entry in _objects(data.get("hunts"))[:MOST_HUNTS]
    ]
    tracks: list[dict[str, Any]] = [
        {
            "name": track_name(_text(entry.get("id"), 128)),
            "rank": _whole(entry, "rank"),
            "of": _whole(entry, "maxRank"),
        }
        for entry in _objects(data.get("tracks"))[:MOST_TRACKS]
    ]
    characters: list[dict[str, Any]] = [
        {
            "name": _text(entry.get("name"), 64),
            "saves": [
                _whole(save, "savedAt") for save in _objects(entry.get("saves"))[:MOST_SAVES]
            ],
        }
        for entry in _objects(data.get("characters"))[:MOST_CHARACTERS]
    ]
    return {
        "profile": _profile(data, [entry["name"] for entry in characters]),
        "guild": _text(data.get("guild"), 64),
        "huntPass": _hunt_pass(track_name(_text(data.get("huntPass"), 128)), tracks),
        "tracks": tracks,
        "hunts": hunts,
        "characters": characters,
        "friends": [_text(entry, 64) for entry in _list(data, "friends")[:MOST_PLAYERS]],
    }


def _profile(data: dict[str, Any], characters: list[str]) -> str:
    """Return a one-line description of the player."""
    masteries = {
        name: _whole(track, "rank")
        for track in _objects(data.get("tracks"))[:MOST_TRACKS]
        if (name := _text(track.get("id"), 128)).startswith(MASTERY)
    }
    return profile(
        _text(data.get("username"), 64),
        masteries.pop(LEVEL, 0),
        characters,
        sum(masteries.values()),
        len(_list(data, "entitlements")),
        len(_list(data, "friends")),
    )


def _hunt_pass(name: str, tracks: list[dict[str, Any]]) -> str:
    """Return the hunt pass and the player's rank in it, as far as the host reports them."""
    reached = next((track for track in tracks if name and track["name"] == name), None)
    return name if reached is None else f"{name}, {reached['rank']} of {reached['of']}"


def read_news(data: Any) -> list[dict[str, str]]:
    """Return the items in a news reply."""
    items = _objects(data.get("items")) if isinstance(data, dict) else []
    return [
        {
            "date": _text(item.get("date"), 40),
            "title": _text(item.get("title"), 200),
            "body": "\n".join(_text(line, LONGEST) for line in _lines(item.get("body"))),
        }
        for item in items[:MOST_NEWS]
    ]


def _lines(value: Any) -> list[str]:
    return value[:LONGEST].split("\n") if isinstance(value, str) else [""]


def read_branding(data: Any) -> tuple[str, list[tuple[str, str]]]:
    """Return the accent colour, and the path and credit of the first few pictures."""
    if not isinstance(data, dict):
        return "", []
    accent = data.get("accent")
    pictures = [
        (background["url"], _text(background.get("credit"), 200))
        for background in _objects(data.get("backgrounds"))
        if isinstance(background.get("url"), str)
        and _PICTURE.match(background["url"])
        and ".." not in background["url"]
    ]
    good = isinstance(accent, str) and _ACCENT.match(accent)
    return (accent if good else "") or "", pictures[:MOST_PICTURES]


def _list(data: dict[str, Any], name: str) -> list[Any]:
    value = data.get(name)
    return value if isinstance(value, list) else []


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _whole(data: dict[str, Any], name: str) -> int:
    value = data.get(name)
    return value if type(value) is int and 0 <= value < 2**53 else 0


def _text(value: Any, longest: int) -> str:
    """Return ``value`` as one line, without terminal or text-direction control characters."""
    return plain(value[:longest]) if isinstance(value, str) else ""
