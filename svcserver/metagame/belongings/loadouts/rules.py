"""The rules of loadouts. Spec: 1 §4 Loadouts, §8.

An element of a loadout is a slot or the part that all slots share. A slot's name is its number; the
shared part is named ``persistent``. The JSON text of an element is stored unchanged.
"""

from attrs import evolve, field, frozen

from svcserver.kernel.digits import whole_in
from svcserver.kernel.ids import CharacterId
from svcserver.kernel.refusals import Malformed

PERSISTENT = "persistent"
ACCOUNT_SLOTS = 1
MAX_CHARACTER_SLOTS = 5
MAX_DIGITS = 10  # maximum digits of a number in a path


@frozen
class Defaults:
    """A character's loadout before its first save: the JSON of slot 0 and of the shared part."""

    slot: bytes = field(repr=False)
    persistent: bytes = field(repr=False)

    @property
    def elements(self) -> dict[str, bytes]:
        """Return a dict: the keys are the elements' names, the values are the elements' JSON."""
        return {"0": self.slot, PERSISTENT: self.persistent}


@frozen
class Loadout:
    """A character's loadout without its elements; ``version`` is 0 if it was never saved."""

    character_id: CharacterId
    character_slots: int = 1
    active_index: int = 0
    version: int = 0

    @property
    def slots(self) -> int:
        """The number of usable slots: the account's slots and the character's slots together."""
        return ACCOUNT_SLOTS + self.character_slots


def unlocked(before: Loadout, more: str) -> Loadout:
    """Return the loadout with ``more`` additional character slots, up to 5; raises Malformed."""
    count = whole_in(more, MAX_DIGITS)
    if not count:
        raise Malformed("the number of slots must be at least 1")
    slots = min(MAX_CHARACTER_SLOTS, before.character_slots + count)
    return before if slots == before.character_slots else evolve(before, character_slots=slots)


def activated(before: Loadout, index: str) -> Loadout:
    """Return the loadout with this unlocked slot as the active slot; raises Malformed."""
    name = element(index, before.slots)
    if name == PERSISTENT:
        raise Malformed("the active slot must be a number")
    return evolve(before, active_index=int(name))


def element(index: str, slots: int) -> str:
    """Return ``index`` as an element's name; raises Malformed for a slot that is not unlocked."""
    if index == PERSISTENT:
        return PERSISTENT
    number = whole_in(index, MAX_DIGITS)
    if number is None or number >= slots:
        raise Malformed("this slot is not unlocked")
    return str(number)
