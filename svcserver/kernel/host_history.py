"""A host's load and the availability of its services in the last week, stored in a file.

``svc-stack`` writes the file every five minutes, and the dashboard's overview reads it.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import attrs
from attrs import define, field

from svcserver.kernel import json
from svcserver.kernel.disk import replace_json
from svcserver.kernel.host_state import MachineSample

HISTORY_FILE = "host-history.json"
STEP_S = 300
KEPT_S = 7 * 86_400
MOST_BYTES = 4 << 20
MAX_COLUMNS = 64  # load values and services

Column = list[float | None]


@define
class HostHistory:
    """Averages over spans of ``STEP_S`` seconds; ``at`` has the spans' starts in epoch seconds.

    The columns of ``load`` are in percent. A column of ``services`` has the fraction (0 to 1) of
    checks at which the service was ready or starting. None means that nothing was measured.
    """

    at: list[int] = field(factory=list)
    load: dict[str, Column] = field(factory=dict)
    services: dict[str, Column] = field(factory=dict)

    def add(self, at: int, load: Mapping[str, float], services: Mapping[str, float]) -> None:
        """Set the averages for ``at``; delete later averages, and averages older than a week."""
        known = [index for index, time in enumerate(self.at) if at - KEPT_S < time < at]
        self.at = [self.at[index] for index in known] + [at]
        for columns, values in ((self.load, load), (self.services, services)):
            for name in {**columns, **values}:
                column = columns.get(name, [None] * (max(known, default=-1) + 1))
                columns[name] = [column[index] for index in known] + [values.get(name)]
                if not any(value is not None for value in columns[name]):
                    del columns[name]

    def averages(
        self, columns: Mapping[str, Column], since: int, step_s: int, count: int
    ) -> dict[str, Column]:
        """For each column, return ``count`` averages over ``step_s`` seconds each, oldest first."""
        places = [(time - since) // step_s for time in self.at]
        return {
            name: list(_averages(zip(places, column, strict=True), count))
            for name, column in columns.items()
        }


def _averages(values: Iterator[tuple[int, float | None]], count: int) -> Iterator[float | None]:
    sums, numbers = [0.0] * count, [0] * count
    for place, value in values:
        if 0 <= place < count and value is not None:
            sums[place] += value
            numbers[place] += 1
    for total, number in zip(sums, numbers, strict=True):
        yield round(total / number, 4) if number else None


def percentages(sample: MachineSample) -> dict[str, float | None]:
    """Return the machine's load in percent, None where it is unknown."""
    return {
        "cpu": sample.cpu_percent,
        "memory": _percent(sample.memory_used, sample.memory_total),
        "disk": _percent(sample.disk_used, sample.disk_total),
        "files": _percent(sample.files, sample.most_files),
    }


def _percent(part: int | None, whole: int | None) -> float | None:
    return None if part is None or not whole else round(100 * part / whole, 1)


def write(folder: Path, history: HostHistory) -> None:
    """Write the history to a file that only its owner can read; raises OSError."""
    replace_json(folder / HISTORY_FILE, folder / f"{HISTORY_FILE}.new", attrs.asdict(history))


def read(folder: Path) -> HostHistory | None:
    """Return the history, or None if there is no readable file."""
    path = folder / HISTORY_FILE
    try:
        status = path.stat()
        if status.st_size > MOST_BYTES:
            return None
        return _read(path, status.st_mtime_ns, status.st_ino)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


@lru_cache(maxsize=1)  # it changes every five minutes
def _read(path: Path, changed_at: int, inode: int) -> HostHistory:
    known = json.parse(path.read_bytes())
    times = [int(time) for time in known["at"]]
    return HostHistory(times, *(_columns(known[name], len(times)) for name in ("load", "services")))


def _columns(columns: Any, count: int) -> dict[str, Column]:
    """Return the columns of a file; raises ValueError if their lengths differ."""
    made = {
        str(name): [None if value is None else float(value) for value in column]
        for name, column in [*columns.items()][:MAX_COLUMNS]
    }
    if any(len(column) != count for column in made.values()):
        raise ValueError("the columns have different lengths")
    return made
