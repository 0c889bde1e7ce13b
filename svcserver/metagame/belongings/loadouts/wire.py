"""Request and reply shapes of loadouts. Spec: 1 §4 Loadouts."""

from collections.abc import Mapping
from typing import Any, TypedDict

from attrs import frozen

from svcserver.kernel import json
from svcserver.kernel.envelope import envelope
from svcserver.kernel.shapes import AsSent, TextWithNul
from svcserver.metagame.belongings.documents import shallow_object
from svcserver.metagame.belongings.loadouts import rules


class SlotCounts(TypedDict):
    """The numbers of loadout slots of the account and of the character, with their maximums."""

    num_account_slots: int
    max_account_slots: int
    num_character_slots: int
    max_character_slots: int


class LoadoutPayload(SlotCounts):
    """All saved slots, the part that all slots share (``persistent``), and the slot counts."""

    loadouts: list[dict[str, AsSent]]
    persistent: dict[str, AsSent]
    active_index: int
    needs_migration: bool


@frozen
class LoadoutSave:
    """The body of a save: the JSON text of a slot, or of the part that all slots share."""

    data: TextWithNul

    def element(self, name: str) -> bytes:
        """Return the JSON to store for the element ``name``; raises Malformed for invalid data.

        The JSON is stored as sent, except that a wrong ``slot_index`` in a slot is corrected.
        """
        value = shallow_object(self.data)
        if name == rules.PERSISTENT or value.get("slot_index") == int(name):
            return self.data.encode()
        return json.dump({**value, "slot_index": int(name)})


class Activated(TypedDict):
    """The reply to an activation: an envelope without payload."""

    code: None
    message: str


def counts(loadout: rules.Loadout, *, real: bool) -> SlotCounts:
    """Return the slot counts.

    With PROGRESSION_MODE=stub, the account and the character have one slot each.
    """
    return {
        "num_account_slots": rules.ACCOUNT_SLOTS,
        "max_account_slots": rules.ACCOUNT_SLOTS,
        "num_character_slots": loadout.character_slots if real else 1,
        "max_character_slots": rules.MAX_CHARACTER_SLOTS if real else 1,
    }


def show_loadouts(
    loadout: rules.Loadout, elements: Mapping[str, bytes], *, real: bool
) -> dict[str, Any]:
    """Return the reply with all saved loadouts and the slot counts."""
    slots = sorted(name for name in elements if name != rules.PERSISTENT)
    return envelope(
        {
            "loadouts": [json.Fragment(elements[name]) for name in slots],
            "persistent": json.Fragment(elements[rules.PERSISTENT]),
            **counts(loadout, real=real),
            "active_index": loadout.active_index if real else 0,
            "needs_migration": False,
        }
    )


ACTIVATED: Activated = {"code": None, "message": "OK"}
