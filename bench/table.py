"""The limits of the figures, and the tables that show whether they are met."""

import statistics
from typing import Any

from attrs import define, field

from bench.kept import HEADS, Measurement
from bench.runs import Runs

TWISTED, UVICORN = "bare twisted.web", "uvicorn + starlette"
BEATS_BY_WRK, TWISTED_BY_WRK = "heartbeat by wrk", "bare twisted.web by wrk"
MIX, CROWD, STORM = "mix", "crowd", "logins at once"
alone = {  # the work of a scenario without HTTP
    "login": "RS256 signing alone",
    "save": "the writer alone, saves",
    "inventory": "the writer alone, inventory",
}
bare = {  # twisted.web in front of the bare writer
    "save": "bare writer, saves",
    "inventory": "bare writer, inventory",
}
# (baseline, floor); the writer alone has no floor, because it sends no replies
FLOORS: dict[str, tuple[tuple[str, float | None], ...]] = {
    "status": ((TWISTED, 1.3), (UVICORN, 0.8)),
    "login": ((alone["login"], 0.7),),
    "heartbeat": ((TWISTED, None),),
    BEATS_BY_WRK: ((TWISTED_BY_WRK, 1.2),),
    "character-read": ((TWISTED, 0.45),),
    "save": ((bare["save"], 0.85), (alone["save"], None)),
    "inventory": ((bare["inventory"], 0.6), (alone["inventory"], None)),
    "balance": ((TWISTED, 0.7),),
}
MIX_FLOOR = (TWISTED, 5_000 / 15_000)
CROWD_P99_MS, SAVES_P99_MS, SLOWEST_SAVE_MS = 10.0, 10.0, 50.0
BEAT_IN_STORM_MS = 20.0
SAVE = "save"
SAVE_P99 = 2.2  # the highest allowed ratio of its p99 to its p50
LEAST_BESIDE = 0.9  # of the requests per CPU second of another checkout


def report(runs: Runs) -> list[Measurement]:
    """Print and return the rows; ``good`` is false if a limit is missed or data was lost."""
    table = FloorTable()
    for name, measured in runs.of.items():
        members = {"p50_ms": "p50_ms", "p99_ms": "p99_ms", "cpu_us": "server_us"}
        more: dict[str, Any] = {
            member: statistics.median(getattr(run, source) for run in measured) or None
            for member, source in members.items()
        }
        more["latency_ms"] = runs.latency_ms(name)
        rate, floors = runs.rate(name), (MIX_FLOOR,) if name == MIX else FLOORS.get(name, ())
        if not floors:
            table.add(name, rate, "/s", **more)
        for yardstick, floor in floors:
            ratio = runs.ratio(name, yardstick)
            table.against(name, rate, "/s", ratio, yardstick, floor or 0.0, **more)
        if harm := _harm(name, runs):
            table.add(f"{name}: failed or lost", harm, less=True, good=False)
        if any(run.generator > 0.9 for run in measured):
            print(f"{name}: the load generator was the limit")
    if saves := runs.of.get(SAVE):
        times = statistics.median(run.p99_ms / run.p50_ms for run in saves)
        table.below(f"{SAVE}: p99 beside p50", times, "x", SAVE_P99)
    for run in runs.of.get(CROWD, []):
        table.below(f"{CROWD}: p99", run.p99_ms, "ms", CROWD_P99_MS)
        if run.saves_ms:
            p99, slowest = run.saves_ms
            table.below(f"{CROWD}: p99 of saves", p99, "ms", SAVES_P99_MS)
            table.below(f"{CROWD}: slowest save", slowest, "ms", SLOWEST_SAVE_MS)
    if storms := runs.of.get(STORM):
        slowest = statistics.median(run.latency_ms[-1] for run in storms)
        table.below(f"{STORM}: slowest heartbeat", slowest, "ms", BEAT_IN_STORM_MS)
    table.print_table()
    return table.rows


def report_beside(ours: Runs, theirs: Runs) -> list[Measurement]:
    """Print and return the requests per CPU second, compared with those of another checkout."""
    table = FloorTable()
    for name, runs in ours.of.items():
        pairs = [*zip(runs, theirs.of[name], strict=True)]
        ratio = statistics.median(their.server_us / our.server_us for our, their in pairs)
        rate = statistics.median(1e6 / run.server_us for run in runs)
        times = {
            member: statistics.median(getattr(run, member) for run in runs)
            for member in ("p50_ms", "p99_ms")
        }
        table.against(name, rate, "/CPU s", ratio, "the other checkout", LEAST_BESIDE, **times)
        if harm := _harm(name, ours) + _harm(name, theirs):
            table.add(f"{name}: failed or lost", harm, less=True, good=False)
    table.print_table()
    return table.rows


def _harm(name: str, runs: Runs) -> int:
    """Print and return the number of a scenario's failures and losses."""
    errors = sum(run.errors for run in runs.of[name])
    missing = sum(run.missing for run in runs.of[name])
    if errors or missing:
        print(f"| {name}: {errors} requests failed, {missing} acknowledged changes lost |||||||||")
    return errors + missing


@define
class FloorTable:
    """The measurements of a table, in the order of their rows."""

    rows: list[Measurement] = field(factory=list)

    def add(self, name: str, value: float, unit: str = "", **more: Any) -> None:
        """Add a row; ``more`` holds further attributes of its ``Measurement``."""
        self.rows.append(Measurement(name, value, unit, **more))

    def below(self, name: str, value: float, unit: str, most: float) -> None:
        """Add a figure that must stay under ``most``."""
        limit = f"under {most:g}"
        self.add(name, value, unit, less=True, limit=limit, good=value < most)

    def above(self, name: str, value: float, unit: str, least: float, **more: Any) -> None:
        """Add a figure that must be at least ``least``."""
        self.add(name, value, unit, limit=f"at least {least:g}", good=value >= least, **more)

    def against(
        self,
        name: str,
        value: float,
        unit: str,
        ratio: float,
        yardstick: str,
        floor: float,
        less: bool = False,
        **more: Any,
    ) -> None:
        """Add a figure with its ratio to a yardstick.

        The ratio must be at least ``floor`` or, if ``less`` is true, at most ``floor``. If
        ``floor`` is 0, every ratio is good.
        """
        limit = f"at {'most' if less else 'least'} {floor:.3g}" if floor else ""
        good = not floor or (ratio <= floor if less else ratio >= floor)
        more |= {"less": less, "ratio": ratio, "yardstick": yardstick, "limit": limit, "good": good}
        self.add(name, value, unit, **more)

    def print_table(self) -> None:
        print(f"| {' | '.join(HEADS)} |\n|---|{'---:|' * (len(HEADS) - 1)}")
        for row in self.rows:
            print(f"| {' | '.join(row.cells)} |")
