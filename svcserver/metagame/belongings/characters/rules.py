"""Rules of characters and their documents. Spec: 1 §2 Character, §4 Characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from attrs import frozen

from svcserver.kernel.digits import MAX_VERSION
from svcserver.kernel.ids import AccountId, CharacterId, new_id
from svcserver.kernel.refusals import Conflict, Missing
from svcserver.metagame.belongings.documents import EMPTY, Document

if TYPE_CHECKING:
    from svcserver.metagame.belongings.characters.store import SqlCharacters

MAX_NAME = 64
MAX_CHARACTERS = 20

BASELINE = "baseline"
SAVED_BY_CLIENT = "save:client"
SAVED_BY_GAME_SERVER = "save:gameserver"


@frozen
class Head:
    """A character without its document, as a save needs it."""

    id: CharacterId
    account_id: AccountId
    name: str
    update_version: int
    created_at: float  # epoch seconds
    modified_at: float

    def saved(self, data: Document, version: int, now: float) -> Character:
        """The character with a newer document, saved at ``now`` (epoch seconds)."""
        return Character(self.id, self.account_id, self.name, version, self.created_at, now, data)


@frozen
class Character(Head):
    """A character with its newest document."""

    data: Document


class Versions(Protocol):
    """The part of ``SqlCharacters`` that ``next_version`` uses."""

    def highest(self, character_id: CharacterId, below: int) -> int: ...


def next_version(versions: Versions, before: Head) -> int:
    """Return the version for a document that the server itself makes the newest.

    It is above all others, so that a save in flight conflicts. Where a client has used up the
    numbers, it is one above the versions of the lower half, so that the client can save again.
    """
    if before.update_version + 1 < MAX_VERSION:
        return before.update_version + 1
    return versions.highest(before.id, MAX_VERSION // 2) + 1


def reason_of(*, game_server: bool) -> str:
    """The reason of a save in the history."""
    return SAVED_BY_GAME_SERVER if game_server else SAVED_BY_CLIENT


def all_of(
    characters: SqlCharacters, account_id: AccountId, username: str, now: float
) -> list[Character]:
    """The account's characters; the first one is created, with the username, if there is none."""
    found = characters.of_account(account_id)
    if found:
        return found
    first = Character(new_id(), account_id, username[:MAX_NAME], 0, now, now, EMPTY)
    characters.create(first)
    return [first]


def create(characters: SqlCharacters, account_id: AccountId, name: str, now: float) -> Character:
    """Create a character; raises Conflict beyond ``MAX_CHARACTERS``."""
    if characters.count(account_id) >= MAX_CHARACTERS:
        raise Conflict("this account has all the characters it may have")
    character = Character(new_id(), account_id, name, 0, now, now, EMPTY)
    characters.create(character)
    return character


def save(
    characters: SqlCharacters,
    account_id: AccountId,
    character_id: CharacterId | None,
    version: int,
    document: Callable[[], Document],
    now: float,
    reason: str,
) -> Character:
    """Replace the document when ``version`` is newer than the stored one.

    Order of refusal: not the caller's character (404), not newer or too high (409), and only then
    ``document``, which may raise Malformed (400). Gaps in versions are fine. A stored version
    without room for later ones counts as none.
    """
    before = characters.find(character_id) if character_id is not None else None
    if before is None or before.account_id != account_id:
        raise Missing("not one of your characters")
    if version <= before.update_version < MAX_VERSION:
        raise Conflict("this version or a newer one is stored")
    if version > MAX_VERSION:
        raise Conflict("this version is too high: no newer one would fit above it")
    after = before.saved(document(), version, now)
    characters.save(after, reason)
    return after
