"""Rules of characters and their documents. Spec: 1 §2 Character, §4 Characters."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from svcserver.kernel.digits import MAX_VERSION
from svcserver.kernel.ids import AccountId, CharacterId, new_id
from svcserver.kernel.refusals import Conflict, Missing
from svcserver.metagame.belongings.documents import EMPTY, Document

MAX_NAME = 64
MAX_CHARACTERS = 20

BASELINE = "baseline"
SAVED_BY_CLIENT = "save:client"
SAVED_BY_GAME_SERVER = "save:gameserver"


@frozen
class Head:
    """A character without its document."""

    id: CharacterId
    account_id: AccountId
    name: str
    update_version: int
    created_at: float  # epoch seconds
    modified_at: float

    def saved(self, data: Document, version: int, now: float) -> Character:
        """Return the character after a save of a new document at ``now`` (epoch seconds)."""
        return Character(self.id, self.account_id, self.name, version, self.created_at, now, data)


@frozen
class Character(Head):
    """A character with its newest document."""

    data: Document


def next_version(current: int, highest: Callable[[int], int]) -> int:
    """Return the version for a save by the server, such as the restore of an old document.

    Usually, this is ``current`` + 1. A client that saves at the same time uses the same version, so
    the client's save is refused as a conflict. If ``current`` + 1 would reach MAX_VERSION, the
    result is a much lower version, so that clients can save again. ``highest(limit)`` returns the
    highest stored version below ``limit``.
    """
    if current + 1 < MAX_VERSION:
        return current + 1
    return highest(MAX_VERSION // 2) + 1


def reason_of(*, game_server: bool) -> str:
    """Return the text that the save history stores as the reason of a save."""
    return SAVED_BY_GAME_SERVER if game_server else SAVED_BY_CLIENT


def new_character(account_id: AccountId, name: str, now: float) -> Character:
    """Return a character without data."""
    return Character(new_id(), account_id, name, 0, now, now, EMPTY)


def check_save(before: Head | None, account_id: AccountId, version: int) -> Head:
    """Return ``before``, the stored character, if a save with this version may replace it.

    Raises Missing if the account has no such character. Raises Conflict if the version is too high,
    or not higher than the stored version. Gaps between versions are allowed. If the stored version
    has reached MAX_VERSION, any version may replace it.
    """
    if before is None or before.account_id != account_id:
        raise Missing("not one of your characters")
    if version <= before.update_version < MAX_VERSION:
        raise Conflict("this version or a newer one is stored")
    if version > MAX_VERSION:
        raise Conflict("this version is too high: no higher version would be possible")
    return before
