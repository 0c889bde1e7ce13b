"""The machine's load in the last hour, and the history of the load and the services."""

import math
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from attrs import define, evolve, field

from svcserver.kernel import host_history
from svcserver.kernel.host_history import STEP_S, HostHistory
from svcserver.kernel.host_state import DOWN, MachineSample, ServiceState
from svcserver.kernel.processes import cpu_ticks, sizes
from svcserver.stack.alerts.disks import Disk

MINUTE_S = 60.0
MAX_MINUTES = 60  # minutes
OpenFiles = Mapping[str, tuple[int, int]]
"""Each service's number of open files, and its limit."""


@define(eq=False)
class MachineLoad:
    """The machine's load now and in each minute of the last hour."""

    data: Path
    disk: Callable[[Path], Disk]
    proc: Path = Path("/proc")
    _minutes: deque[MachineSample] = field(factory=lambda: deque(maxlen=MAX_MINUTES), init=False)
    _ticks: tuple[int, int] | None = field(default=None, init=False)
    _minute_ticks: tuple[int, int] | None = field(default=None, init=False)

    def load(self, samples: tuple[MachineSample, ...], now: float) -> None:
        """Restore the samples, one per minute, that an earlier process measured."""
        self._minutes.extend(
            sample for sample in samples if 0 <= now - sample.at <= MAX_MINUTES * MINUTE_S
        )

    def sample(self, now: float, open_files: OpenFiles) -> tuple[MachineSample, ...]:
        """Measure the load; return the samples of the last hour, the current one last."""
        ticks = cpu_ticks(self.proc)
        memory = sizes(self.proc / "meminfo")
        current = MachineSample(now, _busy_percent(self._ticks, ticks))
        if "MemTotal" in memory and "MemAvailable" in memory:
            used, total = memory["MemTotal"] - memory["MemAvailable"], memory["MemTotal"]
            current = evolve(current, memory_used=used * 1024, memory_total=total * 1024)
        self._ticks = ticks
        try:
            disk = self.disk(self.data)
        except OSError:
            pass  # the check of the disks reports it
        else:
            current = evolve(current, disk_used=disk.total - disk.free, disk_total=disk.total)
        if open_files:
            files, most = max(open_files.values(), key=lambda entry: entry[0] / max(1, entry[1]))
            current = evolve(current, files=files, most_files=most)
        if not self._minutes or not 0 <= now - self._minutes[-1].at < MINUTE_S:
            whole_minute = _busy_percent(self._minute_ticks, ticks)
            self._minute_ticks = ticks
            self._minutes.append(evolve(current, cpu_percent=whole_minute))
        return (*self._minutes, current)


def _busy_percent(before: tuple[int, int] | None, now: tuple[int, int] | None) -> float | None:
    if before is None or now is None or now[1] <= before[1]:
        return None
    idle, total = now[0] - before[0], now[1] - before[1]
    return round(100 * max(0.0, 1 - idle / total), 1)


@define
class HistoryWriter:
    """The writer of a host's history, which has averages over spans of ``STEP_S`` seconds."""

    folder: Path
    _history: HostHistory | None = field(default=None, init=False)
    _at: int = field(default=0, init=False)
    _load: dict[str, list[float]] = field(factory=dict, init=False)
    _up: dict[str, list[float]] = field(factory=dict, init=False)

    def note(self, sample: MachineSample, services: tuple[ServiceState, ...]) -> None:
        """Add the results of a check; raises OSError.

        The first check after a span of ``STEP_S`` seconds writes the averages of that span.
        """
        at = math.floor(sample.at / STEP_S) * STEP_S
        if at != self._at:
            self._write()
            self._at = at
        for name, value in host_history.percentages(sample).items():
            if value is not None:
                self._load.setdefault(name, []).append(value)
        for service in services:
            self._up.setdefault(service.name, []).append(float(service.state != DOWN))

    def _write(self) -> None:
        load, up = self._load, self._up
        self._load, self._up = {}, {}
        if not up:
            return
        if self._history is None:
            self._history = host_history.read(self.folder) or HostHistory()
        self._history.add(self._at, _means(load), _means(up))
        host_history.write(self.folder, self._history)


def _means(values: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: round(sum(each) / len(each), 3) for name, each in values.items()}
