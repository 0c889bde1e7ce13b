"""Tells what happens in an evening: lines with the time since its start."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field


@define
class Story:
    """Prints lines by ``tell`` and keeps them."""

    tell: Callable[[str], None]
    wall_clock: Callable[[], float]
    lines: list[str] = field(factory=list)
    _began: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self.wall_clock()

    def say(self, line: str) -> None:
        text = f"{self.wall_clock() - self._began:6.1f} s  {line}"
        self.lines.append(line)
        self.tell(text)


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 party``, ``2 parties``; ``many`` for an odd plural."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def and_more(number: int, one: str = "", many: str = "") -> str:
    """The end of a shortened list: `` and 3 more pairs``; empty when none are left out."""
    if number <= 0:
        return ""
    return f" and {number} more" + (f" {one if number == 1 else many or one + 's'}" if one else "")
