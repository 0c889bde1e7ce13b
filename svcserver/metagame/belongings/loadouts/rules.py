"""Rules of loadouts. Spec: 1 §4 Loadouts, §8.

An element is one slot (by number) or ``persistent``; its text is stored as sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from attrs import evolve, field, frozen

from svcserver.kernel.digits import whole_in
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Malformed, Missing

PERSISTENT = "persistent"
ACCOUNT_SLOTS = 1
MAX_CHARACTER_SLOTS = 5
FIRST_VERSION = 1
MAX_DIGITS = 10  # of a number in a path

MAX_ELEMENT = 65_536  # bytes

BASELINE = "baseline"


@frozen
class Defaults:
    """The loadout of a character that never saved: slot 0 and the persistent part, as JSON."""

    slot: bytes = field(repr=False)
    persistent: bytes = field(repr=False)

    @property
    def elements(self) -> dict[str, bytes]:
        """The first slot and what all slots share, by their names on the wire."""
        return {"0": self.slot, PERSISTENT: self.persistent}


@frozen
class Loadout:
    """A character's loadout without its elements. ``version`` 0: never saved."""

    character_id: CharacterId
    character_slots: int = 1
    active_index: int = 0
    version: int = 0

    @property
    def slots(self) -> int:
        """The number of slots that may be saved: the account's and the character's."""
        return ACCOUNT_SLOTS + self.character_slots


@frozen
class Change:
    """An element to save; ``data`` gives its text for its name, of at most ``most`` bytes.

    ``request_id`` is kept with it.
    """

    index: str
    data: Callable[[str], bytes]
    reason: str
    most: int = MAX_ELEMENT
    request_id: str = ""


class Loadouts(Protocol):
    """Stored loadouts, inside one transaction."""

    def owner(self, character_id: CharacterId) -> AccountId | None: ...

    def find(self, character_id: CharacterId) -> Loadout | None: ...

    def put(self, loadout: Loadout) -> None:
        """Write counts and the active slot; elements and versions stay."""

    def save(
        self,
        loadout: Loadout,
        changed: Mapping[str, bytes],
        at_ms: int,
        reason: str,
        request_id: str = "",
    ) -> None:
        """Write the loadout and one history row; elements not in ``changed`` stay."""

    def elements(self, loadout: Loadout) -> dict[str, bytes]:
        """The newest elements by name; none when never saved."""

    def saved(self, character_id: CharacterId, version: int) -> str | None:
        """The content of a history row, for ``restore``; None when there is none."""

    def restore(self, loadout: Loadout, held: str, at_ms: int, reason: str) -> None:
        """Write the loadout and a history row with the content ``held`` of another one."""


def own(loadouts: Loadouts, account_id: AccountId, character_id: CharacterId) -> Loadout:
    """The loadout of a character of this account; raises Missing."""
    if loadouts.owner(character_id) != account_id:
        raise Missing("not one of this account's characters")
    return loadouts.find(character_id) or Loadout(character_id)


def read(
    loadouts: Loadouts, account_id: AccountId, character_id: CharacterId, defaults: Defaults
) -> tuple[Loadout, dict[str, bytes]]:
    """The loadout with its elements; the defaults when it was never saved."""
    loadout = own(loadouts, account_id, character_id)
    return loadout, {**defaults.elements, **loadouts.elements(loadout)}


def save(
    loadouts: Loadouts,
    account_id: AccountId,
    character_id: CharacterId,
    change: Change,
    defaults: Defaults,
    now: float,
    *,
    real: bool,
) -> tuple[Loadout, dict[str, bytes]]:
    """Save one element; with stub progression only slot 0 and the persistent part.

    Before the first save the defaults are stored as a version of their own. Raises Missing
    for another's character, Malformed for an invalid slot or invalid or too large data; the
    data are parsed last.
    """
    before, at_ms = own(loadouts, account_id, character_id), int(now * 1000)
    name = element(change.index, before.slots if real else 1)
    document = change.data(name)
    if len(document) > change.most:
        raise Malformed("data is too large")
    if before.version == 0:
        before = evolve(before, version=FIRST_VERSION)
        loadouts.save(before, defaults.elements, at_ms, BASELINE)
    after = evolve(before, version=before.version + 1)
    loadouts.save(after, {name: document}, at_ms, change.reason, change.request_id)
    return after, loadouts.elements(after)


def unlock(
    loadouts: Loadouts, account_id: AccountId, character_id: CharacterId, more: str
) -> Loadout:
    """Add character slots, up to 5; having them all already is fine."""
    before = own(loadouts, account_id, character_id)
    count = whole_in(more, MAX_DIGITS)
    if not count:
        raise Malformed("the number of slots must be at least 1")
    slots = min(MAX_CHARACTER_SLOTS, before.character_slots + count)
    after = evolve(before, character_slots=slots)
    if after != before:
        loadouts.put(after)
    return after


def activate(
    loadouts: Loadouts, account_id: AccountId, character_id: CharacterId, index: str
) -> Loadout:
    """Choose the active slot among the unlocked ones."""
    before = own(loadouts, account_id, character_id)
    name = element(index, before.slots)
    if name == PERSISTENT:
        raise Malformed("the active slot is a number")
    after = evolve(before, active_index=int(name))
    loadouts.put(after)
    return after


def roll_back(loadouts: Loadouts, character_id: CharacterId, version: int, now: float) -> Loadout:
    """Make an old version the newest; returns the loadout afterwards.

    Raises Missing for an unknown character or version.
    """
    before = loadouts.find(character_id)
    held = loadouts.saved(character_id, version)
    if before is None or held is None:
        raise Missing("no such version")
    after = evolve(before, version=before.version + 1)
    loadouts.restore(after, held, int(now * 1000), f"rollback:{version}")
    return after


def element(index: str, slots: int) -> str:
    """The element's name for an index in a path; raises Malformed."""
    if index == PERSISTENT:
        return PERSISTENT
    number = whole_in(index, MAX_DIGITS)
    if number is None or number >= slots:
        raise Malformed("this slot is not unlocked")
    return str(number)
