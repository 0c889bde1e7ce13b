"""The passport (a player's data, signed by the host with Ed25519) and the rules of its import.

The signature covers the exact bytes of the body. ``wire.py`` reads and writes the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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

from svcserver.kernel.foreign_text import NOT_PLAIN, is_plain
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed
from svcserver.metagame.achievements.progression.rules import Path, Track
from svcserver.metagame.belongings.documents import Document, document
from svcserver.metagame.belongings.inventory.rules import Policy
from svcserver.metagame.belongings.items import Instance, Size, Stacked
from svcserver.metagame.settings import MetagameSettings

FORMAT = "svc-passport-1"
MAX_BODY = 16 * 1024 * 1024  # bytes; signing them takes a fifth of a second
BAD = "this file is not a passport, or it was changed after signing"
TOO_MUCH = "this account has more than a passport can hold"
_PREFIX = FORMAT.encode() + b"\n"


def signing_key(private: RSAPrivateKey) -> Ed25519PrivateKey:
    """Return the host's key that signs passports, derived from the key that signs tokens."""
    secret = private.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    seed = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"svc passport").derive(secret)
    return Ed25519PrivateKey.from_private_bytes(seed)


def public_text(key: Ed25519PublicKey) -> str:
    """Return a public key as 64 hexadecimal characters."""
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def is_public_text(text: str) -> bool:
    """Return whether ``text`` has the form of a public key: 64 lower-case hexadecimal digits."""
    return len(text) == 64 and all(digit in "0123456789abcdef" for digit in text)


def sign(raw: bytes, key: Ed25519PrivateKey) -> bytes:
    """Return the Ed25519 signature of these bytes."""
    return key.sign(_PREFIX + raw)


def check_signed(raw: bytes, signature: bytes, signer: str) -> None:
    """Raise Malformed if ``signature`` is not the signature of ``raw`` by the key ``signer``."""
    if not is_public_text(signer):
        raise Malformed(BAD)
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(signer)).verify(signature, _PREFIX + raw)
    except (InvalidSignature, ValueError):
        raise Malformed(BAD) from None


def check_fits(size: int) -> None:
    """Raise Conflict if a passport would be too large."""
    if size > MAX_BODY:
        raise Conflict(TOO_MUCH)


@frozen
class Unreadable:
    """A part of a passport that cannot be read; ``why`` gives the reason.

    The other parts are still imported.
    """

    why: str


@frozen
class CarriedItems:
    """The items in a character's inventory, including currencies."""

    stacks: Sequence[Stacked]
    instances: Sequence[Instance]


@frozen
class CarriedLoadout:
    """A character's loadout: the number of slots, the active slot, and each element as JSON."""

    slots: int
    active: int
    elements: Mapping[str, bytes | Unreadable]  # by slot number (a string) or ``persistent``


@frozen
class Carried:
    """A character in a passport; ``data`` is its unparsed document.

    ``items`` or ``loadout`` is None if the passport does not contain this part.
    """

    name: str
    data: str = field(repr=False)
    items: CarriedItems | Unreadable | None = field(default=None, repr=False)
    loadout: CarriedLoadout | None = field(default=None, repr=False)


@frozen
class Passport:
    """A passport whose signature is valid; ``signer`` is the public key of its host."""

    signer: str
    subject: str  # the account's id on that host
    username: str
    host: str
    tracks: Mapping[str, int]
    characters: Sequence[Carried] = field(repr=False)
    entitlements: int = 0
    notes: int = 0  # the account's stored amount of the main currency


@frozen
class Terms:
    """This host's import terms: the parts listed in PASSPORT_TAKES, with their limits."""

    parts: frozenset[str]
    policy: Policy
    document_bytes: int
    loadout_bytes: int
    real: Callable[[AccountId], bool]  # whether an account's progression is real

    @classmethod
    def for_imports(cls, settings: MetagameSettings) -> Terms:
        """Return the import terms from the settings."""
        most = Size(settings.inventory_max_items, settings.inventory_max_bytes)
        return cls(
            settings.passport_takes,
            Policy(most=most, log_bytes=settings.item_log_max_bytes),
            settings.character_max_bytes,
            settings.loadout_max_bytes,
            settings.real_progression,
        )

    def takes(self, part: str) -> bool:
        return part in self.parts


@define
class Taken:
    """The numbers of imported things, and sentences that say what was left out and why."""

    tracks: int = 0
    characters: int = 0
    items: int = 0
    currencies: int = 0
    loadouts: int = 0
    left_out: list[str] = field(factory=list)


def in_groups(key: str) -> str:
    """Return a key in groups of four characters, so that people can compare two keys.

    No command accepts this form.
    """
    return " ".join(key[at : at + 4] for at in range(0, len(key), 4))


def check_importable(passport: Passport, *, trusted: bool, before: bool) -> None:
    """Raise Forbidden if the host is not ``trusted``; raise Conflict for a repeated import."""
    if not trusted:
        raise Forbidden(
            f"the host that signed the passport, with the key {in_groups(passport.signer)}, is not "
            "trusted. "
            "Ask that host's owner, not the player, for the output of svcctl passport key. If all "
            "groups of the key match, trust the key that the owner sent"
        )
    if before:
        raise Conflict(f"the passport of {passport.username} has been imported before")


def new_tracks(
    passport: Passport, stored: Mapping[str, Track], paths: Mapping[str, Path]
) -> tuple[list[Track], list[str]]:
    """Return the tracks that gain progress from the passport, with their new progress.

    The second result describes what is not imported. The progress in a track is limited to the XP
    that the track's last rank requires.
    """
    raised, left_out = [], []
    for name, progress in sorted(passport.tracks.items()):
        path = paths.get(name)
        if path is None:
            left_out.append(f"the track {name[:64]}, which this host does not have")
            continue
        before = stored.get(name) or Track(name, 0, 0, 0, 0)
        after = min(progress, path.total_xp)
        if after < progress:
            left_out.append(f"the experience beyond the last rank of {name}")
        if after > before.progress:
            raised.append(evolve(before, progress=after))
    return raised, left_out


def documents(
    passport: Passport, most: int, room: int
) -> tuple[list[tuple[Carried, Document]], list[str]]:
    """Return the characters to import (at most ``room``), and why the others are left out."""
    accepted: list[tuple[Carried, Document]] = []
    left_out: list[str] = []
    for character in passport.characters:
        if len(accepted) >= room:
            left_out.append(f"the character {character.name[:32]}: an account has at most {room}")
            continue
        if not is_plain(character.name):
            left_out.append(f"the character {character.name[:32]}: its name has {NOT_PLAIN}")
            continue
        try:
            accepted.append((character, document(character.data, most)))
        except Malformed as why:
            left_out.append(f"the character {character.name[:32]}: {why.message}")
    return accepted, left_out
