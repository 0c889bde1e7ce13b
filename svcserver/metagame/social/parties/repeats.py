"""Whether what a player asks of a party was done already; see ``kernel/repeats.py``."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from svcserver.kernel.ids import AccountId
from svcserver.kernel.repeats import Repeat

DONE_S = 120.0  # how long what was done is known, for who asks for it twice


class Deed(StrEnum):
    """What is done once, whatever others make of it since."""

    INVITE = "invite"
    KICK = "kick"
    PROMOTE = "promote"


class Notes(Protocol):
    """What was done of late, inside one act."""

    @property
    def now(self) -> float: ...

    def note_done(self, what: str) -> None: ...

    def done_at(self, what: str) -> float | None: ...


def note(notes: Notes, deed: Deed, by: AccountId, whom: AccountId) -> None:
    """Note that it is done now."""
    notes.note_done(f"{deed} {by} {whom}")


def is_done(
    notes: Notes, deed: Deed, by: AccountId, whom: AccountId, repeat: Repeat | None
) -> bool:
    """Whether the first try has done it."""
    at = notes.done_at(f"{deed} {by} {whom}") if repeat else None
    if repeat is None or at is None:
        return False
    return repeat.may_have_done(round(at * 1000), round(notes.now * 1000))
