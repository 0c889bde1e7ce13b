"""Request shapes of cooldowns. Spec: 1 §4 PUT /cooldown/batch."""

from __future__ import annotations

from typing import Annotated

from attrs import frozen

from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Late, Name, Shown, Skipping, text_where

MAX_DATE = 64
Date = Annotated[str, text_where(lambda one: len(one) <= MAX_DATE and one.isprintable(), "a date")]
LateDate = Late[Date] | None
"""A malformed date refuses the batch, while an entry without a usable id is only skipped."""

DateById = Annotated[LateDate, Shown({"type": "string"})]
"""Null is read as well; described so, a widespread generator's clients for Go do not compile."""


@frozen
class CooldownStart:
    """A cooldown and its start, stored as sent; without a date it starts now."""

    cooldown_id: Name
    cooldown_started_date: LateDate = None


@frozen
class CooldownBatch:
    """Cooldowns to start: a list of entries, or an object of dates by id."""

    cooldowns: Skipping[CooldownStart] | dict[str, DateById]

    def started(self, now: str) -> dict[str, str]:
        """Start times by id, as sent; raises Malformed."""
        listed = self.cooldowns
        sent = (
            [(name, date) for name, date in listed.items() if is_name(name)]
            if isinstance(listed, dict)
            else [(one.cooldown_id, one.cooldown_started_date) for one in listed]
        )
        return {name: (date.read() if date else "") or now for name, date in sent}


def cooldown_in_path(text: str) -> str:
    """A cooldown's id in a path; raises Malformed."""
    if not is_name(text):
        raise Malformed("not a cooldown's id")
    return text
