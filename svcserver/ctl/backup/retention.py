"""The retention rule: the newest backup of each recent day, week and month."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from attrs import frozen

T = TypeVar("T")


@frozen
class BackupRetention:
    """The days, weeks (from Monday) and months whose newest backup is kept."""

    days: int = 7
    weeks: int = 4
    months: int = 12

    def kept(self, made: Sequence[datetime]) -> set[datetime]:
        """Return the dates of ``made`` that are kept; the newest always is."""
        newest_first = sorted(set(made), reverse=True)
        return {
            *newest_first[:1],
            *_newest_of_each(newest_first, lambda date: date.date(), self.days),
            *_newest_of_each(newest_first, lambda date: date.isocalendar()[:2], self.weeks),
            *_newest_of_each(newest_first, lambda date: (date.year, date.month), self.months),
        }


def _newest_of_each(
    newest_first: Sequence[datetime], span: Callable[[datetime], object], count: int
) -> list[datetime]:
    newest: dict[object, datetime] = {}
    for date in newest_first:
        newest.setdefault(span(date), date)
    return list(newest.values())[:count]
