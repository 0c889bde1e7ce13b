"""``svcctl capacity``: what a hunt costs on this machine, and which limit comes first."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import click
from attrs import asdict, frozen

from svcserver.ctl.disk_growth import HORIZON_DAYS, WIDTH, Filled, as_data, disks, show
from svcserver.ctl.host import Host, about_a_host
from svcserver.ctl.output import Out, fail
from svcserver.deploy.fleet import PERSISTENT
from svcserver.deploy.hunts import Kind
from svcserver.deploy.process import MAX_OUTPUT
from svcserver.deploy.saved_servers import SavedServers
from svcserver.deploy.service import STATE
from svcserver.deploy.settings import Settings, numbers
from svcserver.kernel.processes import PROCESSES, started_at

SAMPLE_S = 2.0
OUTPUTS_MB = 2 * MAX_OUTPUT / (1 << 20)  # a game server's output file and the one before
LEAST_CORES = 0.001  # what is measured as nothing still costs something


@frozen
class Cost:
    """What one hunt takes; ``measured`` is how many were looked at, 0 where settings say it."""

    memory_mb: float
    cores: float
    measured: int


@frozen
class Left:
    """What the machine still has for hunts."""

    memory_mb: float
    ports: int
    cores: float
    disk_mb: float


@frozen
class Limit:
    """How many more hunts one resource allows."""

    name: str
    more: int
    why: str


def forecast(cost: Cost, left: Left) -> list[Limit]:
    """The limits, the one that comes first at the top."""
    found = [
        Limit("memory", _times(left.memory_mb, cost.memory_mb),
              f"{left.memory_mb:.0f} MB may be used, a hunt takes {cost.memory_mb:.0f} MB"),
        Limit("ports", max(0, left.ports), f"{left.ports} ports for hunts are free"),
        Limit("cores", _times(left.cores, max(cost.cores, LEAST_CORES)),
              f"{left.cores:.2f} cores are idle, a hunt takes {cost.cores:.3f}"),
        Limit("disk", _times(left.disk_mb, OUTPUTS_MB),
              f"{left.disk_mb:.0f} MB may be used after {HORIZON_DAYS} more days of growth, "
              f"a hunt writes up to {OUTPUTS_MB:.0f} MB"),
    ]  # fmt: skip
    return sorted(found, key=lambda one: one.more)


def _times(left: float, each: float) -> int:
    return max(0, int(left / each))


@frozen
class Usage:
    """Of a group of processes: memory now, and processor seconds since its start."""

    memory_mb: float
    seconds: float


def usage(groups: Iterable[int], processes: Path = PROCESSES) -> dict[int, Usage]:
    """Of these process groups, and what they forked; those that have ended are left out."""
    wanted = set(groups)
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    found: dict[int, Usage] = {}
    for one in processes.iterdir():
        if not one.name.isdigit():
            continue
        try:
            words = (one / "stat").read_text().rpartition(")")[2].split()
            group, ticks, pages = int(words[2]), int(words[11]) + int(words[12]), int(words[21])
        except (OSError, ValueError, IndexError):  # it has just ended
            continue
        if group in wanted:
            before = found.get(group, Usage(0.0, 0.0))
            memory = before.memory_mb + pages * page / (1 << 20)
            found[group] = Usage(memory, before.seconds + ticks / tick)
    return found


def cost_of(before: dict[int, Usage], after: dict[int, Usage], seconds: float) -> Cost | None:
    """What one game server costs: the mean of those that ran at both looks; None if none did."""
    both = [one for one in after if one in before]
    if not both:
        return None
    memory = sum(after[one].memory_mb for one in both) / len(both)
    cores = sum(after[one].seconds - before[one].seconds for one in both) / len(both) / seconds
    return Cost(memory, max(0.0, cores), len(both))


def idle_ticks(processes: Path = PROCESSES) -> int:
    """Ticks in which a core had nothing to do, since the machine's start."""
    words = (processes / "stat").read_text().split("\n", 1)[0].split()
    return int(words[4]) + int(words[5])


@click.command("capacity")
@about_a_host
def capacity(host: Host, out: Out) -> None:
    """Measure running hunts and say how many more this machine takes, and what ends it first.

    Without a hunt under way the figures of deploy.env stand in for its memory.
    """
    if host.folder is None:
        fail("capacity is of a whole host; give its folder with --config DIR")
    if not PROCESSES.is_dir():
        fail("this measures by /proc, which Linux has")
    settings = host.settings("deploy", Settings)
    data = Path(host.variables("stack").get("DATA_DIR", "")) if _has_stack(host) else Path()
    folder = host.folder / data  # an absolute DATA_DIR stays what it is
    hunts, worlds = _running(folder)
    measured = hunts or worlds
    begun, before, idle = time.monotonic(), usage(measured), idle_ticks()
    time.sleep(SAMPLE_S)
    seconds = time.monotonic() - begun
    cost = cost_of(before, usage(measured), seconds)
    cores = (idle_ticks() - idle) / os.sysconf("SC_CLK_TCK") / seconds
    assumed = float(_number(settings.hunt_startup_mb or settings.startup_mb))
    if cost is None or not hunts:
        cost = Cost(assumed, cost.cores if cost is not None else 0.0, 0)
    reserve = float(_number(settings.min_free_mb)) if settings.memory_guard else 0.0
    ports = max(0, settings.last_port - 2 - settings.first_port + 1) - len(hunts)
    filled, days = disks(host, folder)
    own = filled[0]
    disk = (own.usable - own.gains(HORIZON_DAYS)) / (1 << 20)
    left = Left(_free_mb() - reserve, ports, cores, disk)
    limits = sorted([*forecast(cost, left), *elsewhere(filled[1:])], key=lambda one: one.more)
    _show(out, cost, left, limits, len(hunts), as_data(filled, days))
    show(out, filled, days)


def elsewhere(filled: Sequence[Filled]) -> list[Limit]:
    """Disks on which no hunt writes, where they are full before the forecast's end."""
    return [
        Limit(f"disk of {one.place}", 0, f"it is full in {one.full_in} days")
        for one in filled
        if one.full_in is not None and one.full_in < HORIZON_DAYS
    ]


def _show(
    out: Out,
    cost: Cost,
    left: Left,
    limits: Sequence[Limit],
    running: int,
    filled: Mapping[str, object],
) -> None:
    first = limits[0]
    out.data(
        {
            "running": running,
            "hunt": _rounded(asdict(cost)),
            "left": _rounded(asdict(left)),
            "limits": [asdict(one) for one in limits],
            "first": first.name,
            "more": first.more,
            **filled,
        }
    )
    assumed = "those that run have just begun" if running else "no hunt runs"
    how = f"measured on {cost.measured}" if cost.measured else f"assumed: {assumed}"
    out.say(f"a hunt takes {cost.memory_mb:.0f} MB and {cost.cores:.3f} cores ({how})")
    run = "1 hunt runs" if running == 1 else f"{running} hunts run"
    out.say(
        f"{run}, {first.more or 'no'} more {_fit(first.more)}; what ends first: {first.name}", ""
    )
    shown = bars([one.more for one in limits])
    rows = [[one.name, f"{one.more}", bar, one.why] for one, bar in zip(limits, shown, strict=True)]
    out.table(["limit", "more hunts", "", ""], rows)


def bars(counts: Sequence[int]) -> list[str]:
    """A bar for each; one beyond four times the smallest is cut and ends with an ellipsis."""
    most = 4 * min((one for one in counts if one > 0), default=1)
    return [
        "█" * WIDTH + "…" if one > most else "█" * math.ceil(WIDTH * one / most) for one in counts
    ]


def _fit(more: int) -> str:
    return "fits" if more == 1 else "fit"


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in figures.items()}


def _running(folder: Path) -> tuple[list[int], list[int]]:
    """The processes of hunts, and of the city and the dojo, as the deploy server noted them."""
    kept = [
        one
        for one in SavedServers(folder / STATE).load_all()
        if started_at(one.server.pid) == one.started
    ]
    worlds = [one.server.pid for one in kept if one.server.launch.kind in PERSISTENT]
    hunts = [one.server.pid for one in kept if one.server.launch.kind in (Kind.HUNT, Kind.TUTORIAL)]
    return hunts, worlds


def _has_stack(host: Host) -> bool:
    return host.folder is not None and (host.folder / "stack.env").is_file()


def _number(text: str) -> int:
    try:
        found: int = numbers(text)
        return found
    except ValueError as why:
        fail(f"deploy.env: a figure of the memory guard {why}")


def _free_mb() -> float:
    for line in (PROCESSES / "meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) / 1024
    return 0.0
