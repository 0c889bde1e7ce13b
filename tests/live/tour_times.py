"""The table in ``docs/owners/first-evening.md`` that lists how long each step of the tour takes.

``make pictures`` writes the table (``tests/packages/empty_machine.py``). Two tests take the tour
again. ``tests/packages/test_first_evening.py`` takes all of it on an empty machine and compares the
times with the table. ``tests/live/test_first_evening.py`` starts after the installation and runs on
any machine beside other tests, so it compares no times.
"""

import os
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "owners" / "first-evening.md"
INSTALL = "install"
STEPS = (
    INSTALL,
    "make-the-host",
    "give-it-the-game",
    "look-at-it",
    "invite-a-friend",
    "what-your-friend-does",
    "the-first-hunt",
)
"""Each is a part of the page, and a row of its table."""

MOST = 4.0  # times the duration on the page, because the test's machine may be busy
GRACE_S = 20.0

_ROW = re.compile(r"(?m)^(\| .*\]\(#([a-z-]+)\).* \| )(\d+) s \|$")
_SUM = re.compile(r"(?m)^(\| in all \| )(\d+) s \|$")
_MEASURED = re.compile(r"(?m)^Measured on .*$")


def shown(page: str) -> dict[str, int]:
    """Return the seconds of each step on the page, including the total ``in all``."""
    result = {row[2]: int(row[3]) for row in _ROW.finditer(page)}
    if (last := _SUM.search(page)) is not None:
        result["in all"] = int(last[2])
    return result


def slow(took: Mapping[str, float], page: str) -> dict[str, float]:
    """Return the steps that took much longer than the page says."""
    reply = shown(page)
    return {entry: took[entry] for entry in took if took[entry] > MOST * reply[entry] + GRACE_S}


def written(page: str, took: Mapping[str, float], measured: str) -> str:
    """Return the page with these times, and with the sentence ``measured`` about the tour."""
    seconds = {step: max(1, round(took[step])) for step in STEPS}
    page = _ROW.sub(lambda row: f"{row[1]}{seconds[row[2]]} s |", page)
    page = _SUM.sub(lambda row: f"{row[1]}{sum(seconds.values())} s |", page)
    return _MEASURED.sub(measured, page)


def machine(day: date, test: str) -> str:
    """Return the sentence that names the date, the test and the machine of the tour."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return (
        f"Measured on {day.day} {day:%B %Y} by `{test}` on {os.cpu_count()} cores and "
        f"{memory:.0f} GB of memory."
    )
