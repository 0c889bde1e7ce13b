"""What the launcher reads of a player; the file of a passport, as it is written and read.

A file is read into values whole, or refused. What one character carries may be unreadable alone.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from svcserver.kernel import json
from svcserver.kernel.digits import MAX_WHOLE, whole_in
from svcserver.kernel.foreign_text import is_plain
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import sent_as, text_where
from svcserver.metagame.belongings.items import Instance, Stacked
from svcserver.metagame.belongings.loadouts.rules import MAX_CHARACTER_SLOTS, MAX_DIGITS
from svcserver.metagame.owner.passports import rules
from svcserver.metagame.owner.passports.rules import (
    BAD,
    FORMAT,
    Carried,
    CarriedLoadout,
    Items,
    Passport,
    Unreadable,
)

MAX_FILE = 64 * 1024 * 1024  # bytes that an import reads
MAX_LISTED = 256  # tracks and characters that are looked at
MOST_ITEMS = 20_000  # of a character

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


def seal(body: Mapping[str, Any], key: Ed25519PrivateKey) -> PassportReply:
    """The file of a passport; raises Conflict where it would be too large."""
    raw = json.dump(body)
    rules.check_fits(len(raw))
    return {
        "format": FORMAT,
        "key": rules.public_text(key.public_key()),
        "body": base64.b64encode(raw).decode(),
        "signature": base64.b64encode(rules.sign(raw, key)).decode(),
    }


def unseal(file: bytes) -> Passport:
    """The passport in a file, whose signature is right; raises Malformed."""
    try:
        said = json.read(file)
        if not isinstance(said, dict) or said.get("format") != FORMAT:
            raise Malformed(BAD)
        signer = _text(said, "key")
        raw, signature = (_decoded(_text(said, name)) for name in ("body", "signature"))
        rules.check_signed(raw, signature, signer)
        return read_body(signer, json.read(raw))
    except json.BadJson:
        raise Malformed(BAD) from None


def _decoded(text: str) -> bytes:
    """Base64, spelled in the one right way: the last character may have bits that say nothing."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise Malformed(BAD) from None
    if base64.b64encode(raw) != text.encode():
        raise Malformed(BAD)
    return raw


def read_body(signer: str, body: json.Json) -> Passport:
    """The passport that stands in the JSON that was signed; raises Malformed."""
    if not isinstance(body, dict):
        raise Malformed(BAD)
    tracks, characters = body.get("tracks"), body.get("characters")
    if not isinstance(tracks, dict) or not isinstance(characters, list):
        raise Malformed(BAD)
    held = body.get("entitlements")
    return Passport(
        signer,
        _text(body, "subject"),
        _line(body, "username"),
        _line(body, "host"),
        {
            name: xp
            for name, xp in list(tracks.items())[:MAX_LISTED]
            if type(xp) is int and 0 <= xp < 2**53
        },
        [_carried(one) for one in characters[:MAX_LISTED] if isinstance(one, dict)],
        len(held) if isinstance(held, list) else 0,
        notes if type(notes := body.get("notes")) is int and 0 <= notes < 2**53 else 0,
    )


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str) or not value or "\0" in value:
        raise Malformed(BAD)
    return value


def _line(said: Mapping[str, Any], name: str) -> str:
    value = _text(said, name)
    if not is_plain(value):
        raise Malformed(BAD)
    return value


def _carried(said: Mapping[str, Any]) -> Carried:
    name, data = _text(said, "name"), _text(said, "data")
    return Carried(name, data, _items(said.get("inventory")), _loadout(said.get("loadout")))


def _items(said: object) -> Items | Unreadable | None:
    """All of them, or why not: a half of what somebody owns is worth less than the sentence."""
    if not isinstance(said, dict):
        return None
    try:
        stacks = [_stack(one) for one in _objects(said, "stackedItems")]
        return Items(stacks, [_instance(one) for one in _objects(said, "instancedItems")])
    except Malformed as why:
        return Unreadable(why.message)


def _objects(said: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """A list of objects; raises Malformed."""
    found = said.get(name)
    if not isinstance(found, list) or len(found) > MOST_ITEMS:
        raise Malformed(f"{name} is no list of {MOST_ITEMS} at most")
    if not all(isinstance(one, dict) for one in found):
        raise Malformed(f"{name} is no list of objects")
    return found


def _stack(said: dict[str, Any]) -> Stacked:
    """A stack as ``inventory_of`` shows it; raises Malformed."""
    quantity = said.get("quantity")
    if type(quantity) is not int or not 0 <= quantity <= MAX_WHOLE:
        raise Malformed("a stack has no quantity")
    more = {key: one for key, one in said.items() if key not in ("catalogId", "quantity")}
    return Stacked(_name(said, "catalogId"), quantity, _written(more) if more else None)


def _instance(said: dict[str, Any]) -> Instance:
    """An item as ``inventory_of`` shows it; raises Malformed."""
    data, version = said.get("itemData"), said.get("updateVersion")
    if not isinstance(data, str | None) or (version is not None and type(version) is not int):
        raise Malformed("an item has data or a version that is none")
    if version is not None and not 0 <= version <= MAX_WHOLE:
        raise Malformed("an item has a version that is none")
    names = _name(said, "instanceId"), _name(said, "catalogId")
    return Instance(*names, 0 if data is None else version, data is None, _written(said))


def _name(said: Mapping[str, Any], name: str) -> str:
    found = said.get(name)
    if not isinstance(found, str) or not 0 < len(found) <= 256 or "\0" in found:
        raise Malformed(f"an item has no {name}")
    return found


def _written(value: dict[str, Any]) -> bytes:
    """As JSON; raises Malformed for what nests too deep to be written."""
    try:
        return json.dump(value)
    except TypeError:
        raise Malformed("it nests too deep") from None


def _loadout(said: object) -> CarriedLoadout | None:
    """The loadout; None where no element is said. No more of them than there may be slots."""
    elements = said.get("elements") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(elements, dict) or not elements:
        return None
    listed = list(elements.items())[: MAX_CHARACTER_SLOTS + 2]
    read = {index: _element(index, value) for index, value in listed}
    return CarriedLoadout(_count(said.get("slots")), _count(said.get("active")), read)


def _element(index: str, value: object) -> bytes | Unreadable:
    """An element as it is stored, a slot with its own number."""
    if not isinstance(value, dict):
        return Unreadable("it is no object")
    number = whole_in(index, MAX_DIGITS)
    try:
        return _written(value if number is None else {**value, "slot_index": number})
    except Malformed as why:
        return Unreadable(why.message)


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 2**31 else 0
