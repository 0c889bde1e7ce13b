"""The outcomes of requests, and the list of violations."""

from collections.abc import Callable

from attrs import define, field, frozen

ACKED, REFUSED, UNKNOWN = "acked", "refused", "unknown"


def outcome(status: int) -> str:
    """Return the outcome of a request from its reply's status; a 5xx leaves the outcome unknown."""
    return ACKED if status < 300 else REFUSED if status < 500 else UNKNOWN


@frozen
class Violation:
    """A broken rule."""

    at: float
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


@define(eq=False)
class Violations:
    """The violations, limited to the first 200."""

    listed: list[Violation] = field(factory=list)
    seconds: Callable[[], float] = lambda: 0.0

    def add(self, rule: str, what: str) -> None:
        """Record a violation; only the first 200 are kept."""
        if len(self.listed) < 200:
            self.listed.append(Violation(self.seconds(), rule, what))
