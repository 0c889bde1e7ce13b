"""How a request ended for who sent it, and what a right host would not do."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field, frozen

ACKED, REFUSED, UNKNOWN = "acked", "refused", "unknown"


def outcome(status: int) -> str:
    """Of a request that was answered so; 5xx tells as little as no answer."""
    return ACKED if status < 300 else REFUSED if status < 500 else UNKNOWN


@frozen
class Violation:
    """What a right host would not do."""

    at: float
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


@define(eq=False)
class Violations:
    """All of them, each rule's first ones in words."""

    found: list[Violation] = field(factory=list)
    seconds: Callable[[], float] = lambda: 0.0

    def add(self, rule: str, what: str) -> None:
        """Note that a rule was broken; only the first 200 are kept."""
        if len(self.found) < 200:
            self.found.append(Violation(self.seconds(), rule, what))
