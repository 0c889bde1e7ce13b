"""Request and reply shapes of escalation. Spec: 1 §4 Escalation."""

from __future__ import annotations

from typing import Annotated, TypedDict

from attrs import frozen

from svcserver.kernel.shapes import Count, whole
from svcserver.metagame.achievements.bounds import INT_MAX
from svcserver.metagame.achievements.escalation.rules import SeasonState, SeasonValues

STUB = {
    "escalation_level": 99999,
    "next_level_xp": 99999,
    "talents_progress": [],
    "unlock_progress": [],
    "update_version": 1,
}


@frozen
class TalentSave:
    """A talent and the rank to save for it."""

    talent_id: str
    rank: Count


@frozen
class UnlockSave:
    """A reward to save, and whether it was collected."""

    reward_id: str
    collected: bool


@frozen
class SeasonSave:
    """An account's season to save; ``next_level_xp`` is the XP gained within the current level."""

    escalation_level: Count
    next_level_xp: Annotated[int, whole(0, INT_MAX)]
    update_version: Annotated[int, whole(1, INT_MAX)]
    talents_progress: tuple[TalentSave, ...]
    unlock_progress: tuple[UnlockSave, ...]

    def values(self) -> SeasonValues:
        """Return the sent values; the rules check their ids and ranks against the registry."""
        return SeasonValues(
            self.escalation_level,
            self.next_level_xp,
            [(entry.talent_id, entry.rank) for entry in self.talents_progress],
            [(entry.reward_id, entry.collected) for entry in self.unlock_progress],
            self.update_version,
        )


class TalentProgress(TypedDict):
    """A talent and its rank, as shown to the client."""

    rank: int
    talent_id: str


class UnlockProgress(TypedDict):
    """A reward, and whether the account has collected it."""

    collected: bool
    reward_id: str


class EscalationSeason(TypedDict):
    """An account's season state; ``next_level_xp`` is the XP gained within the current level."""

    escalation_level: int
    next_level_xp: int
    talents_progress: list[TalentProgress]
    unlock_progress: list[UnlockProgress]
    update_version: int


def show(state: SeasonState) -> EscalationSeason:
    """Return the wire form of a stored season."""
    return {
        "escalation_level": state.level,
        "next_level_xp": state.xp,
        "talents_progress": [{"rank": rank, "talent_id": name} for name, rank in state.talents],
        "unlock_progress": [{"collected": True, "reward_id": name} for name in state.rewards],
        "update_version": state.version,
    }
