"""Prints the steps of a session, each with the time since the start."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field


class PlayFailed(Exception):
    """A failure of the component ``link``; ``fault`` says what was observed."""

    def __init__(self, link: str, fault: str) -> None:
        super().__init__(f"{link}: {fault}")
        self.link, self.fault = link, fault


@define
class Story:
    """A log of the session's steps, which passes each line to ``tell`` and keeps it."""

    tell: Callable[[str], None]
    wall_clock: Callable[[], float]
    lines: list[str] = field(factory=list)
    _began: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self.wall_clock()

    def add(self, line: str) -> None:
        text = f"{self.wall_clock() - self._began:6.1f} s  {line}"
        self.lines.append(line)
        self.tell(text)


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 party`` or ``2 parties``."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def and_more(number: int, singular: str = "", plural: str = "") -> str:
    """Return the end of a shortened list, such as `` and 3 more pairs``; empty for 0."""
    if number <= 0:
        return ""
    return f" and {number} more" + (
        f" {singular if number == 1 else plural or singular + 's'}" if singular else ""
    )
