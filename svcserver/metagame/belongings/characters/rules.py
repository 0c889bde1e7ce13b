"""What may be saved, and when it conflicts. Spec: 1 §2 Character, §4 Characters."""

from __future__ import annotations

from typing import Protocol

from attrs import evolve, field, frozen

from svcserver.kernel import json
from svcserver.kernel.ids import AccountId, CharacterId, new_id
from svcserver.kernel.refusals import Conflict, Malformed, Missing

MAX_NAME = 64
MAX_CHARACTERS = 20
MAX_DOCUMENT = 524_288  # bytes
MAX_VERSION = 2**53 - 1  # what a client's number can hold exactly
MAX_VERSION_DIGITS = 16

BASELINE = "baseline"
SAVED_BY_CLIENT = "save:client"
SAVED_BY_GAME_SERVER = "save:gameserver"


@frozen
class Document:
    """A character's data: JSON text that only passes through.

    ``literal`` is the text as a JSON string, quotes and all, so that no read has to
    escape 40 KB again; ``size`` the length of the text itself in bytes.
    """

    literal: bytes = field(repr=False)
    size: int


EMPTY = Document(b'"{}"', 2)


@frozen
class Character:
    """A character with its newest document."""

    id: CharacterId
    account_id: AccountId
    name: str
    update_version: int
    created_at: float  # epoch seconds
    modified_at: float
    data: Document


class Stable(Protocol):
    """What the rules need kept; an instance lives inside one transaction."""

    def of_account(self, account_id: AccountId) -> list[Character]: ...

    def find(self, character_id: CharacterId) -> Character | None: ...

    def create(self, character: Character) -> None: ...

    def save(self, character: Character, reason: str) -> None: ...


def all_of(stable: Stable, account_id: AccountId, username: str, now: float) -> list[Character]:
    """The account's characters; one named after the username when there is none."""
    characters = stable.of_account(account_id)
    if characters:
        return characters
    first = Character(new_id(), account_id, username[:MAX_NAME], 0, now, now, EMPTY)
    stable.create(first)
    return [first]


def create(stable: Stable, account_id: AccountId, name: str, now: float) -> Character:
    """One more character; at most 20 an account."""
    if len(stable.of_account(account_id)) >= MAX_CHARACTERS:
        raise Conflict("this account has all the characters it may have")
    character = Character(new_id(), account_id, name, 0, now, now, EMPTY)
    stable.create(character)
    return character


def save(
    stable: Stable,
    account_id: AccountId,
    character_id: object,
    version: int,
    data: object,
    now: float,
    reason: str,
    most: int = MAX_DOCUMENT,
) -> Character:
    """Replace the data when ``version`` is newer than the stored one.

    Order: the character is the caller's (404), the version is newer (409), the data is
    the JSON text of an object, of at most ``most`` bytes (400). Gaps in versions are fine.
    """
    before = stable.find(character_id) if isinstance(character_id, str) else None
    if before is None or before.account_id != account_id:
        raise Missing("not one of your characters")
    if before.update_version >= version:
        raise Conflict("this version or a newer one is stored")
    after = evolve(before, data=document(data, most), update_version=version, modified_at=now)
    stable.save(after, reason)
    return after


def document(data: object, most: int = MAX_DOCUMENT) -> Document:
    """The document of a JSON text that holds an object; raises Malformed."""
    if not isinstance(data, str):
        raise Malformed("data must be a text")
    size = len(data) if data.isascii() else len(data.encode())
    if size > most:
        raise Malformed("data is too large")
    try:
        if not data.strip() or not isinstance(json.read(data), dict):
            raise Malformed("data must be the JSON text of an object")
    except json.BadJson as why:
        raise Malformed("data must be the JSON text of an object") from why
    return Document(json.dump(data), size)


def version(sent: object) -> int:
    """A non-negative safe whole number, or a text of its digits; raises Malformed."""
    if isinstance(sent, str) and sent.isascii() and sent.isdigit():
        sent = int(sent) if len(sent) <= MAX_VERSION_DIGITS else -1
    if type(sent) is float and sent.is_integer():
        sent = int(sent)
    if type(sent) is not int or not 0 <= sent <= MAX_VERSION:
        raise Malformed("updateVersion must be a whole number of at least 0")
    return sent


def name(sent: object) -> str:
    """A character's name: 1 to 64 characters; raises Malformed."""
    if not isinstance(sent, str) or not 1 <= len(sent) <= MAX_NAME or "\0" in sent:
        raise Malformed("name must be a text of 1 to 64 characters")
    return sent
