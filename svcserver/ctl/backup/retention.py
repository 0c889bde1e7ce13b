"""Which backups are kept: the newest of each of the last days, weeks and months that have one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from attrs import frozen

T = TypeVar("T")


@frozen
class Retention:
    """How many days, weeks (from Monday) and months keep their newest backup."""

    days: int = 7
    weeks: int = 4
    months: int = 12

    def kept(self, made: Sequence[datetime]) -> set[datetime]:
        """Those of ``made`` that are kept; the newest always is."""
        newest_first = sorted(set(made), reverse=True)
        return {
            *newest_first[:1],
            *_newest_of_each(newest_first, lambda one: one.date(), self.days),
            *_newest_of_each(newest_first, lambda one: one.isocalendar()[:2], self.weeks),
            *_newest_of_each(newest_first, lambda one: (one.year, one.month), self.months),
        }


def _newest_of_each(
    newest_first: Sequence[datetime], span: Callable[[datetime], object], count: int
) -> list[datetime]:
    found: dict[object, datetime] = {}
    for one in newest_first:
        found.setdefault(span(one), one)
    return list(found.values())[:count]
