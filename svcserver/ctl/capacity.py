"""The command ``svcctl capacity``: how many more hunts fit, and which resource limits them."""

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from attrs import asdict, evolve, frozen

from svcserver.ctl.disk_growth import HORIZON_DAYS, WIDTH, Filled, as_data, disks, print_growth
from svcserver.ctl.fleet import Docker, FleetMachine, machines
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.output import Out, fail
from svcserver.deploy.family import list_processes
from svcserver.deploy.fleet import PERSISTENT
from svcserver.deploy.hunts import GameServerKind
from svcserver.deploy.process import MAX_OUTPUT
from svcserver.deploy.saved_servers import SavedServers
from svcserver.deploy.service import STATE
from svcserver.deploy.settings import DeploySettings, numbers
from svcserver.deploy.swarm import RESERVED_CORES
from svcserver.kernel.processes import PROCESSES, cpu_ticks, sizes, started_at

SAMPLE_S = 2.0
OUTPUTS_MB = 2 * MAX_OUTPUT / (1 << 20)  # a game server's current and previous output file
LEAST_CORES = 0.001  # the minimum cost of a hunt


@frozen
class Cost:
    """The resources that one hunt uses.

    ``measured`` is the number of game servers measured; 0 if the values come from the settings.
    """

    memory_mb: float
    cores: float
    measured: int


@frozen
class Left:
    """The resources that are available for further hunts."""

    memory_mb: float
    ports: int
    cores: float
    disk_mb: float


@frozen
class Limit:
    """The number of further hunts that one resource allows."""

    name: str
    more: int
    why: str


def forecast(cost: Cost, left: Left) -> list[Limit]:
    """Return how many further hunts each resource allows, the scarcest resource first."""
    limits = [
        Limit("memory", _times(left.memory_mb, cost.memory_mb),
              f"{left.memory_mb:.0f} MB may be used, a hunt takes {cost.memory_mb:.0f} MB"),
        Limit("ports", max(0, left.ports), f"{left.ports} ports for hunts are free"),
        Limit("cores", _times(left.cores, max(cost.cores, LEAST_CORES)),
              f"{left.cores:.2f} cores are idle, a hunt takes {cost.cores:.3f}"),
        Limit("disk", _times(left.disk_mb, OUTPUTS_MB),
              f"{left.disk_mb:.0f} MB may be used after {HORIZON_DAYS} more days of growth, "
              f"a hunt writes up to {OUTPUTS_MB:.0f} MB"),
    ]  # fmt: skip
    return sorted(limits, key=lambda limit: limit.more)


def _times(left: float, each: float) -> int:
    return max(0, int(left / each))


@frozen
class ResourceUsage:
    """The memory that a group of processes uses now, and the CPU seconds since its start."""

    memory_mb: float
    seconds: float


def usage(groups: Iterable[int], processes: Path = PROCESSES) -> dict[int, ResourceUsage]:
    """Return the total usage of the running processes in each of these process groups."""
    wanted = set(groups)
    tick, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    usages: dict[int, ResourceUsage] = {}
    for process in list_processes(processes).values():
        if process.group in wanted:
            before = usages.get(process.group, ResourceUsage(0.0, 0.0))
            memory = before.memory_mb + process.pages * page / (1 << 20)
            usages[process.group] = ResourceUsage(memory, before.seconds + process.ticks / tick)
    return usages


def cost_of(
    before: dict[int, ResourceUsage], after: dict[int, ResourceUsage], seconds: float
) -> Cost | None:
    """Return the mean cost of the game servers in both samples; None if no server is in both."""
    groups = [group for group in after if group in before]
    if not groups:
        return None
    memory = sum(after[group].memory_mb for group in groups) / len(groups)
    cores = (
        sum(after[group].seconds - before[group].seconds for group in groups)
        / len(groups)
        / seconds
    )
    return Cost(memory, max(0.0, cores), len(groups))


def idle_ticks() -> int:
    """Return the idle ticks of all CPU cores since boot; 0 if unknown."""
    idle, _ = cpu_ticks() or (0, 0)
    return idle


@host_command(None, "capacity")
def capacity(host: Host, out: Out) -> None:
    """Measure running hunts and estimate how many more fit.

    If no hunt is running, or if game servers run in a Docker Swarm, the estimate uses the memory
    figures in deploy.env.
    """
    home = host.need_folder()
    if not PROCESSES.is_dir():
        fail("svcctl capacity needs /proc, so it works only on Linux.")
    settings = host.settings("deploy", DeploySettings)
    stack = host.variables("stack") if (home / "stack.env").is_file() else {}
    folder = home / stack.get("DATA_DIR", "")  # an absolute DATA_DIR is used unchanged
    in_swarm = settings.engine == "swarm"
    if in_swarm:
        cost, left, running = _of_fleet(machines(Docker.from_deploy_settings(host)), settings)
    else:
        cost, left, running = _measured(settings, folder)
    filled, days = disks(host, folder)
    own = filled[0]
    left = evolve(left, disk_mb=(own.usable - own.gains(HORIZON_DAYS)) / (1 << 20))
    limits = sorted([*forecast(cost, left), *elsewhere(filled[1:])], key=lambda limit: limit.more)
    _show(out, cost, left, limits, running, as_data(filled, days), in_swarm=in_swarm)
    print_growth(out, filled, days)


def _of_fleet(fleet: Sequence[FleetMachine], settings: DeploySettings) -> tuple[Cost, Left, int]:
    """Return what a hunt reserves, what the machines have left, and the number of running hunts."""
    cost = Cost(_assumed(settings), settings.cpus * RESERVED_CORES, 0)
    usable = [machine for machine in fleet if machine.status == "ready"]
    memory = sum(
        _times(machine.memory_mb - machine.reserved_mb, cost.memory_mb) for machine in usable
    )
    running = sum(machine.hunts for machine in fleet)
    cores = sum(machine.cores - machine.hunts * cost.cores for machine in usable)
    return cost, Left(memory * cost.memory_mb, _ports(settings) - running, cores, 0.0), running


def _assumed(settings: DeploySettings) -> float:
    return float(_number(settings.hunt_startup_mb or settings.startup_mb))


def _ports(settings: DeploySettings) -> int:
    return max(0, settings.last_port - 2 - settings.first_port + 1)


def _measured(settings: DeploySettings, folder: Path) -> tuple[Cost, Left, int]:
    """Return what a hunt uses, what this machine has left, and the number of running hunts."""
    hunts, worlds = _running(folder)
    measured = hunts or worlds
    begun, before, idle = time.monotonic(), usage(measured), idle_ticks()
    time.sleep(SAMPLE_S)
    seconds = time.monotonic() - begun
    cost = cost_of(before, usage(measured), seconds)
    cores = (idle_ticks() - idle) / os.sysconf("SC_CLK_TCK") / seconds
    if cost is None or not hunts:
        cost = Cost(_assumed(settings), cost.cores if cost is not None else 0.0, 0)
    reserve = float(_number(settings.min_free_mb)) if settings.memory_guard else 0.0
    free_mb = sizes().get("MemAvailable", 0) / 1024
    left = Left(free_mb - reserve, _ports(settings) - len(hunts), cores, 0.0)
    return cost, left, len(hunts)


def elsewhere(filled: Sequence[Filled]) -> list[Limit]:
    """Return a limit of 0 hunts for each disk that will be full within ``HORIZON_DAYS``."""
    return [
        Limit(f"disk of {disk.place}", 0, f"it is full in {disk.full_in} days")
        for disk in filled
        if disk.full_in is not None and disk.full_in < HORIZON_DAYS
    ]


def _show(
    out: Out,
    cost: Cost,
    left: Left,
    limits: Sequence[Limit],
    running: int,
    filled: Mapping[str, object],
    *,
    in_swarm: bool,
) -> None:
    first = limits[0]
    out.data(
        {
            "running": running,
            "hunt": _rounded(asdict(cost)),
            "left": _rounded(asdict(left)),
            "limits": [asdict(limit) for limit in limits],
            "first": first.name,
            "more": first.more,
            **filled,
        }
    )
    if cost.measured:
        how = f"measured on {cost.measured}"
    elif in_swarm:
        how = "reserved in the swarm"
    else:
        reason = "the running hunts have just begun" if running else "no hunt runs"
        how = f"assumed, because {reason}"
    out.text(f"a hunt takes {cost.memory_mb:.0f} MB and {cost.cores:.3f} cores ({how})")
    run = "1 hunt runs" if running == 1 else f"{running} hunts run"
    more = f"{first.more or 'no'} more {'fits' if first.more == 1 else 'fit'}"
    out.text(f"{run}, {more}; the limit is {first.name}", "")
    drawn = bars([limit.more for limit in limits])
    rows = [
        [limit.name, f"{limit.more}", bar, limit.why]
        for limit, bar in zip(limits, drawn, strict=True)
    ]
    out.table(["limit", "more hunts", "", ""], rows)


def bars(counts: Sequence[int]) -> list[str]:
    """Return a bar for each count.

    A count of more than four times the smallest count gets a bar of full length with an ellipsis at
    its end.
    """
    longest = 4 * min((count for count in counts if count > 0), default=1)
    return [
        "█" * WIDTH + "…" if count > longest else "█" * math.ceil(WIDTH * count / longest)
        for count in counts
    ]


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in figures.items()}


def _running(folder: Path) -> tuple[list[int], list[int]]:
    """Return the process ids of all hunts, and the process ids of the city and the dojo."""
    servers = [
        entry
        for entry in SavedServers(folder / STATE).load_all()
        if started_at(entry.server.pid) == entry.started
    ]
    worlds = [entry.server.pid for entry in servers if entry.server.launch.kind in PERSISTENT]
    hunts = [
        entry.server.pid
        for entry in servers
        if entry.server.launch.kind in (GameServerKind.HUNT, GameServerKind.TUTORIAL)
    ]
    return hunts, worlds


def _number(text: str) -> int:
    try:
        number: int = numbers(text)
        return number
    except ValueError as why:
        fail(
            "deploy.env has an invalid value for GAMESERVER_STARTUP_MB, GAMESERVER_HUNT_STARTUP_MB "
            f"or GAMESERVER_MIN_FREE_MB. The value {why}."
        )
