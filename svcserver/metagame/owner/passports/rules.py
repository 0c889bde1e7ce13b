"""The passport: a player's own data, signed by the host (Ed25519), and what an import takes of it.

The signature covers the body's bytes as they stand in the file, so that one changed byte shows.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed
from svcserver.metagame.achievements.progression.rules import Path, Track
from svcserver.metagame.belongings.documents import Document, document
from svcserver.metagame.belongings.inventory.rules import Policy
from svcserver.metagame.belongings.items import Size
from svcserver.metagame.settings import Settings

FORMAT = "svc-passport-1"
MAX_FILE = 64 * 1024 * 1024  # bytes that an import reads
MAX_BODY = 16 * 1024 * 1024  # bytes that are signed: nothing else runs for a fifth of a second
MAX_LISTED = 256  # tracks and characters that are looked at
BAD = "this is not a passport, or it has been changed"
TOO_MUCH = "this account has more than a passport can hold"
_PREFIX = FORMAT.encode() + b"\n"


def signing_key(private: RSAPrivateKey) -> Ed25519PrivateKey:
    """The host's key for passports, made from the one that signs its tokens."""
    secret = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    seed = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"svc passport").derive(secret)
    return Ed25519PrivateKey.from_private_bytes(seed)


def public_text(key: Ed25519PublicKey) -> str:
    """A public key as owners tell it to each other: 64 hex characters."""
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def is_public_text(text: str) -> bool:
    """Whether it is a host's public key: 32 bytes in lower-case hex."""
    return len(text) == 64 and all(one in "0123456789abcdef" for one in text)


def seal(body: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, str]:
    """The file of a passport; raises Conflict where it would be too large."""
    raw = json.dump(body)
    check_fits(len(raw))
    return {
        "format": FORMAT,
        "key": public_text(key.public_key()),
        "body": base64.b64encode(raw).decode(),
        "signature": base64.b64encode(key.sign(_PREFIX + raw)).decode(),
    }


def check_fits(size: int) -> None:
    """Raise Conflict for more bytes than are signed."""
    if size > MAX_BODY:
        raise Conflict(TOO_MUCH)


@frozen
class Carried:
    """A character in a passport; ``said`` is all that stands there of it."""

    name: str
    data: str = field(repr=False)
    said: Mapping[str, Any] = field(factory=dict, repr=False)


@frozen
class Passport:
    """A passport whose signature is right; ``signer`` is the public key of its host."""

    signer: str
    subject: str  # the account's id on that host
    username: str
    host: str
    tracks: Mapping[str, int]
    characters: Sequence[Carried] = field(repr=False)
    entitlements: int = 0
    notes: int = 0  # the account's own column of the main currency


def unseal(text: bytes) -> Passport:
    """The passport in a file; raises Malformed."""
    try:
        said = json.read(text)
        if not isinstance(said, dict) or said.get("format") != FORMAT:
            raise Malformed(BAD)
        key = _text(said, "key")
        raw, signature = (_decoded(_text(said, name)) for name in ("body", "signature"))
        if not is_public_text(key):
            raise Malformed(BAD)
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(signature, _PREFIX + raw)
        return _read(key, json.read(raw))
    except (json.BadJson, binascii.Error, InvalidSignature, ValueError):
        raise Malformed(BAD) from None


def _decoded(text: str) -> bytes:
    """Base64, spelled in the one right way: the last character may have bits that say nothing."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw) != text.encode():
        raise Malformed(BAD)
    return raw


def _read(key: str, body: Any) -> Passport:
    if not isinstance(body, dict):
        raise Malformed(BAD)
    tracks, characters = body.get("tracks"), body.get("characters")
    if not isinstance(tracks, dict) or not isinstance(characters, list):
        raise Malformed(BAD)
    held = body.get("entitlements")
    return Passport(
        key,
        _text(body, "subject"),
        _text(body, "username"),
        _text(body, "host"),
        {
            name: xp
            for name, xp in list(tracks.items())[:MAX_LISTED]
            if type(xp) is int and 0 <= xp < 2**53
        },
        [
            Carried(_text(one, "name"), _text(one, "data"), one)
            for one in characters[:MAX_LISTED]
            if isinstance(one, dict)
        ],
        len(held) if isinstance(held, list) else 0,
        notes if type(notes := body.get("notes")) is int and 0 <= notes < 2**53 else 0,
    )


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str) or not value or "\0" in value:
        raise Malformed(BAD)
    return value


@frozen
class Terms:
    """What this host lets in: the parts of PASSPORT_TAKES, each as its settings bound it."""

    parts: frozenset[str]
    policy: Policy
    document_bytes: int
    loadout_bytes: int
    real: Callable[[AccountId], bool]  # whether an account's progression is real

    @classmethod
    def of(cls, settings: Settings) -> Terms:
        """The terms that the settings of this host make."""
        most = Size(settings.inventory_max_items, settings.inventory_max_bytes)
        return cls(
            settings.passport_takes,
            Policy(most=most, log_bytes=settings.item_log_max_bytes),
            settings.character_max_bytes,
            settings.loadout_max_bytes,
            settings.real_progression,
        )

    def takes(self, part: str) -> bool:
        """Whether a part is let in."""
        return part in self.parts


@define
class Taken:
    """What was taken, counted, and what was left out, in sentences for the owner."""

    tracks: int = 0
    characters: int = 0
    items: int = 0
    currencies: int = 0
    loadouts: int = 0
    left_out: list[str] = field(factory=list)


def check_importable(passport: Passport, *, trusted: bool, before: bool) -> None:
    """Raise Forbidden for a host that is not trusted, Conflict where it was taken ``before``."""
    if not trusted:
        raise Forbidden(f"the host that signed it is not trusted: passport trust {passport.signer}")
    if before:
        raise Conflict(f"the passport of {passport.username} has been imported before")


def new_tracks(
    passport: Passport, stored: Mapping[str, Track], paths: Mapping[str, Path]
) -> tuple[list[Track], list[str]]:
    """The tracks that the passport raises, never beyond their last rank; and what is left out."""
    raised, left_out = [], []
    for name, progress in sorted(passport.tracks.items()):
        path = paths.get(name)
        if path is None:
            left_out.append(f"the track {name[:64]}, which this host does not have")
            continue
        before = stored.get(name) or Track(name, 0, 0, 0, 0)
        after = min(progress, path.total_xp)
        if after < progress:
            left_out.append(f"what goes beyond the last rank of {name}")
        if after > before.progress:
            raised.append(evolve(before, progress=after))
    return raised, left_out


def documents(
    passport: Passport, most: int, room: int
) -> tuple[list[tuple[Carried, Document]], list[str]]:
    """The characters that may be stored here, with their documents; and what is left out."""
    found: list[tuple[Carried, Document]] = []
    left_out: list[str] = []
    for one in passport.characters:
        if len(found) >= room:
            left_out.append(f"the character {one.name[:32]}: an account has {room} at most")
            continue
        try:
            found.append((one, document(one.data, most)))
        except Malformed as why:
            left_out.append(f"the character {one.name[:32]}: {why.message}")
    return found, left_out
