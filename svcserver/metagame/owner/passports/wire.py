"""What the launcher reads of a player."""

from __future__ import annotations

from typing import TypedDict


class TrackRank(TypedDict):
    """A mastery or pass."""

    id: str
    rank: int
    maxRank: int


class SavedAt(TypedDict):
    """A save; ``savedAt`` in epoch milliseconds."""

    version: int
    savedAt: int


class SavedCharacter(TypedDict):
    """A character with its newest saves."""

    name: str
    saves: list[SavedAt]


class HunterReply(TypedDict):
    """What a player has on this host."""

    username: str
    guild: str | None
    huntPass: str | None
    tracks: list[TrackRank]
    entitlements: list[str]
    characters: list[SavedCharacter]
    friends: list[str]


class PassportReply(TypedDict):
    """The file of a passport; ``body`` is base64 of JSON, ``signature`` covers its bytes."""

    format: str
    key: str
    body: str
    signature: str
