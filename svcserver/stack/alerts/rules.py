"""What is news to the owner: a fault once when it begins and each day it lasts, and its end."""

from __future__ import annotations

from collections import Counter
from datetime import time
from enum import StrEnum

from attrs import define, field, frozen

REPEAT_S = 24 * 3600.0
MOST = 200  # faults known at once
MAX_TEXT = 500  # characters
WELL_LOOKS = 3  # what comes and goes is over once it was well at so many looks, one after the other


class What(StrEnum):
    """What an alert can be about."""

    DOWN = "down"
    LOOP = "loop"
    DISK = "disk"
    CERTIFICATE = "certificate"
    BACKUP = "backup"
    ERRORS = "errors"
    ATTACK = "attack"
    TEST = "test"


TITLES = {
    What.DOWN: "is down",
    What.LOOP: "restarts in a loop",
    What.DISK: "disk is low",
    What.CERTIFICATE: "certificate ends",
    What.BACKUP: "backup failed",
    What.ERRORS: "errors rise",
    What.ATTACK: "is under attack",
    What.TEST: "test",
}


COMES_AND_GOES = (What.ERRORS, What.ATTACK)


@frozen
class Alert:
    """One piece of news: ``what`` about ``subject``; ``over`` where the fault has ended."""

    what: What
    subject: str
    text: str
    at: float  # epoch seconds
    over: bool = False

    @property
    def title(self) -> str:
        """One line for people: ``gateway is down``, and ``gateway is down: over``."""
        said = f"{self.subject} {TITLES[self.what]}"
        return f"{said}: over" if self.over else said


@frozen
class Quiet:
    """Hours of the day, local time, in which nobody is woken; they may span midnight."""

    begin: time
    end: time

    def holds(self, now: time) -> bool:
        """Whether the quiet hours hold at ``now``."""
        if self.begin <= self.end:
            return self.begin <= now < self.end
        return now >= self.begin or now < self.end


@define
class Faults:
    """What is wrong now; ``see`` is told of each thing looked at, whether or not it is well."""

    _told: dict[tuple[What, str], float] = field(factory=dict, init=False)
    _well: Counter[tuple[What, str]] = field(factory=Counter, init=False)  # looks since the fault

    def see(self, what: What, subject: str, wrong: str | None, now: float) -> Alert | None:
        """The news, if it is any; ``wrong`` None where all is well."""
        key, told = (what, subject), self._told.get((what, subject))
        if wrong is None:
            if told is None:
                return None
            self._well[key] += 1
            if what in COMES_AND_GOES and self._well[key] < WELL_LOOKS:
                return None
            del self._told[key], self._well[key]
            return Alert(what, subject, "All is well again.", now, over=True)
        self._well.pop(key, None)
        if told is not None and now - told < REPEAT_S:
            return None
        if told is None and len(self._told) >= MOST:
            return None
        self._told[key] = now
        return Alert(what, subject, " ".join(wrong.split())[:MAX_TEXT], now)


@define
class Held:
    """What quiet hours keep back; a fault that ends meanwhile wakes nobody afterwards."""

    most: int = MOST
    _kept: dict[tuple[What, str], Alert] = field(factory=dict, init=False)

    def keep(self, alert: Alert) -> None:
        """Keep it until the quiet hours end: the newest of each kind and subject.

        The end of a fault whose beginning is kept drops both.
        """
        key = alert.what, alert.subject
        before = self._kept.pop(key, None)
        if alert.over and before is not None and not before.over:
            return
        if len(self._kept) < self.most:
            self._kept[key] = alert

    def release(self) -> list[Alert]:
        """The alerts that quiet hours held back, which then are kept no longer."""
        kept, self._kept = list(self._kept.values()), {}
        return kept
