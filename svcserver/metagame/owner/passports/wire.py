"""What the launcher reads of a player."""

from __future__ import annotations

import re
from typing import Annotated, TypedDict

from attrs import field, frozen

from svcserver.kernel.shapes import sent_as, text_where

_KEY = re.compile(r"UUK_[0-9a-f]{48}\Z")
NewKey = Annotated[
    str, text_where(lambda text: _KEY.match(text) is not None, "UUK_ and 48 hex characters")
]


class TrackRank(TypedDict):
    """The rank reached in a mastery or hunt pass."""

    id: str
    rank: int
    maxRank: int


class SavedAt(TypedDict):
    """A save; ``savedAt`` in epoch milliseconds."""

    version: int
    savedAt: int


class SavedCharacter(TypedDict):
    """A character and its newest saves, ten at most."""

    name: str
    saves: list[SavedAt]


class LatestHunt(TypedDict):
    """A hunt that the player was sent to; ``at`` in epoch milliseconds."""

    title: str
    at: int


@frozen
class NewKeyWish:
    """The key that the account is to have from now on; the player's side makes it."""

    key: NewKey = field(metadata=sent_as("UUK"), repr=False)


class HunterReply(TypedDict):
    """What a player has on this host."""

    username: str
    guild: str | None
    huntPass: str | None
    tracks: list[TrackRank]
    entitlements: list[str]
    characters: list[SavedCharacter]
    hunts: list[LatestHunt]
    friends: list[str]


class PassportReply(TypedDict):
    """The file of a passport; ``body`` is base64 of JSON, ``signature`` covers its bytes."""

    format: str
    key: str
    body: str
    signature: str
