"""The shapes of replies to the launcher, and the reading and writing of passport files.

A file is refused if its signature is invalid, or if the account or a character lacks a required
part. Invalid tracks, belongings and other optional parts are left out.
"""

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
    CarriedItems,
    CarriedLoadout,
    Passport,
    Unreadable,
)

MAX_LISTED = 256  # maximum number of tracks and of characters that are read
MOST_ITEMS = 20_000  # per character

_KEY = re.compile(r"UUK_[0-9a-f]{48}\Z")
NewKey = Annotated[
    str, text_where(lambda text: _KEY.match(text) is not None, "UUK_ and 48 hex characters")
]


class TrackRank(TypedDict):
    """The rank reached in a mastery or in a hunt pass."""

    id: str
    rank: int
    maxRank: int


class SavedAt(TypedDict):
    """The version and time of a save; ``savedAt`` is in epoch milliseconds."""

    version: int
    savedAt: int


class SavedCharacter(TypedDict):
    """A character with its newest saves, at most ten."""

    name: str
    saves: list[SavedAt]


class LatestHunt(TypedDict):
    """A hunt that the player was sent to; ``at`` is in epoch milliseconds."""

    title: str
    at: int


@frozen
class NewKeyRequest:
    """The new key of the account; the player's launcher makes the key."""

    key: NewKey = field(metadata=sent_as("UUK"), repr=False)


class HunterReply(TypedDict):
    """A player's data on this host."""

    username: str
    guild: str | None
    huntPass: str | None
    tracks: list[TrackRank]
    entitlements: list[str]
    characters: list[SavedCharacter]
    hunts: list[LatestHunt]
    friends: list[str]


class PassportReply(TypedDict):
    """A passport file; ``body`` is JSON in base64, and ``signature`` signs the decoded bytes."""

    format: str
    key: str
    body: str
    signature: str


def seal(body: Mapping[str, Any], key: Ed25519PrivateKey) -> PassportReply:
    """Return the signed passport file; raises Conflict if it would be too large."""
    raw = json.dump(body)
    rules.check_fits(len(raw))
    return {
        "format": FORMAT,
        "key": rules.public_text(key.public_key()),
        "body": base64.b64encode(raw).decode(),
        "signature": base64.b64encode(rules.sign(raw, key)).decode(),
    }


def unseal(file: bytes) -> Passport:
    """Check a file's signature, and return its passport; raises Malformed."""
    try:
        passport = json.parse_deep(file)
        if not isinstance(passport, dict) or passport.get("format") != FORMAT:
            raise Malformed(BAD)
        signer = _text(passport, "key")
        raw, signature = (_decoded(_text(passport, name)) for name in ("body", "signature"))
        rules.check_signed(raw, signature, signer)
        return read_body(signer, json.parse_deep(raw))
    except json.BadJson:
        raise Malformed(BAD) from None


def _decoded(text: str) -> bytes:
    """Return the bytes of canonical base64 (unused bits are 0); raises Malformed."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise Malformed(BAD) from None
    if base64.b64encode(raw) != text.encode():
        raise Malformed(BAD)
    return raw


def read_body(signer: str, body: json.Json) -> Passport:
    """Return the passport from its signed JSON; raises Malformed."""
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
        [
            _carried(character)
            for character in characters[:MAX_LISTED]
            if isinstance(character, dict)
        ],
        len(held) if isinstance(held, list) else 0,
        notes if type(notes := body.get("notes")) is int and 0 <= notes < 2**53 else 0,
    )


def _text(source: Mapping[str, Any], name: str) -> str:
    value = source.get(name)
    if not isinstance(value, str) or not value or "\0" in value:
        raise Malformed(BAD)
    return value


def _line(source: Mapping[str, Any], name: str) -> str:
    value = _text(source, name)
    if not is_plain(value):
        raise Malformed(BAD)
    return value


def _carried(source: Mapping[str, Any]) -> Carried:
    name, data = _text(source, "name"), _text(source, "data")
    return Carried(name, data, _items(source.get("inventory")), _loadout(source.get("loadout")))


def _items(source: object) -> CarriedItems | Unreadable | None:
    """Return all items, or an Unreadable with the reason if an item cannot be read."""
    if not isinstance(source, dict):
        return None
    try:
        stacks = [_stack(entry) for entry in _objects(source, "stackedItems")]
        instances = [_instance(entry) for entry in _objects(source, "instancedItems")]
        return CarriedItems(stacks, instances)
    except Malformed as why:
        return Unreadable(why.message)


def _objects(source: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list of objects in the member ``name``; raises Malformed for any other value."""
    entries = source.get(name)
    if not isinstance(entries, list) or len(entries) > MOST_ITEMS:
        raise Malformed(f"{name} is not a list of at most {MOST_ITEMS} entries")
    if not all(isinstance(entry, dict) for entry in entries):
        raise Malformed(f"{name} is not a list of objects")
    return entries


def _stack(source: dict[str, Any]) -> Stacked:
    """Return a stack in the format of ``inventory_of``; raises Malformed."""
    quantity = source.get("quantity")
    if type(quantity) is not int or not 0 <= quantity <= MAX_WHOLE:
        raise Malformed("a stack has no quantity")
    more = {key: value for key, value in source.items() if key not in ("catalogId", "quantity")}
    return Stacked(_name(source, "catalogId"), quantity, _written(more) if more else None)


def _instance(source: dict[str, Any]) -> Instance:
    """Return an instanced item in the format of ``inventory_of``; raises Malformed."""
    data, version = source.get("itemData"), source.get("updateVersion")
    if not isinstance(data, str | None) or (version is not None and type(version) is not int):
        raise Malformed("an item has invalid data or an invalid version")
    if version is not None and not 0 <= version <= MAX_WHOLE:
        raise Malformed("an item has an invalid version")
    names = _name(source, "instanceId"), _name(source, "catalogId")
    return Instance(*names, 0 if data is None else version, data is None, _written(source))


def _name(source: Mapping[str, Any], name: str) -> str:
    value = source.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 256 or "\0" in value:
        raise Malformed(f"an item has no {name}")
    return value


def _written(value: dict[str, Any]) -> bytes:
    """Return a value as JSON; raises Malformed if it is nested too deeply."""
    try:
        return json.dump(value)
    except TypeError:
        raise Malformed("it is nested too deeply") from None


def _loadout(source: object) -> CarriedLoadout | None:
    """Return the loadout, or None if it has no elements; ignore elements beyond the maximum."""
    elements = source.get("elements") if isinstance(source, dict) else None
    if not isinstance(source, dict) or not isinstance(elements, dict) or not elements:
        return None
    listed = list(elements.items())[: MAX_CHARACTER_SLOTS + 2]
    read = {index: _element(index, value) for index, value in listed}
    return CarriedLoadout(_count(source.get("slots")), _count(source.get("active")), read)


def _element(index: str, value: object) -> bytes | Unreadable:
    """Return a loadout element as it is stored; a numeric ``index`` is added as ``slot_index``."""
    if not isinstance(value, dict):
        return Unreadable("it is not an object")
    number = whole_in(index, MAX_DIGITS)
    try:
        return _written(value if number is None else {**value, "slot_index": number})
    except Malformed as why:
        return Unreadable(why.message)


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 2**31 else 0
