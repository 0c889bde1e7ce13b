"""The memory and CPU time that game servers use."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field, frozen

from svcserver.deploy.family import ProcessInfo

READ_S = 1.5  # seconds for which a reading is reused
TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@frozen
class ServerUsage:
    """The memory of a game server's processes, and their CPU time in percent of one core.

    ``cpu_percent`` is None until there are two readings.
    """

    memory_bytes: int
    cpu_percent: float | None


@define
class UsageMeter:
    """The reader of the usage of all game servers; CPU time is measured between two readings."""

    clock: Any
    _at: float = field(default=float("-inf"), init=False)
    _ticks: dict[tuple[int, int], int] = field(factory=dict, init=False)  # by pid and start
    _latest: dict[str, ServerUsage] = field(factory=dict, init=False)

    def is_due(self) -> bool:
        """Return whether the latest reading is too old to be reused."""
        return bool(self.clock.seconds() - self._at >= READ_S)

    def latest(self) -> Mapping[str, ServerUsage]:
        """Return the latest reading by server id."""
        return self._latest

    def measure_servers(self, members: Mapping[str, Iterable[ProcessInfo]]) -> None:
        """Measure the memory and CPU time of each server's processes; the keys are server ids."""
        now = self.clock.seconds()
        elapsed, before, self._at, self._ticks = now - self._at, self._ticks, now, {}
        self._latest = {
            server_id: self._usage([*processes], before, elapsed)
            for server_id, processes in members.items()
        }

    def _usage(
        self, processes: list[ProcessInfo], before: dict[tuple[int, int], int], elapsed: float
    ) -> ServerUsage:
        spent, is_known = 0, False
        for process in processes:
            key = process.pid, process.started
            self._ticks[key] = process.ticks
            if key in before:
                is_known = True
                spent += process.ticks - before[key]
        percent = 100 * spent / TICKS_PER_S / elapsed if is_known else None
        memory = PAGE * sum(process.pages for process in processes)
        return ServerUsage(memory, None if percent is None else round(percent, 1))
