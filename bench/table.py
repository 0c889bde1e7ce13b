"""The limits of the figures, and the tables that show whether they are met."""

from __future__ import annotations

import statistics

from attrs import define, field

from bench.runs import Runs

TWISTED, UVICORN = "bare twisted.web", "uvicorn + starlette"
BEATS_BY_WRK, TWISTED_BY_WRK = "heartbeat by wrk", "bare twisted.web by wrk"
MIX, CROWD = "mix", "crowd"
alone = {  # the work of a scenario without HTTP
    "login": "RS256 signing alone",
    "save": "the writer alone, saves",
    "inventory": "the writer alone, inventory",
}
bare = {  # twisted.web before the bare group-commit writer
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
    "save": ((bare["save"], 0.75), (alone["save"], None)),
    "inventory": ((bare["inventory"], 0.6), (alone["inventory"], None)),
    "balance": ((TWISTED, 0.7),),
}
MIX_FLOOR = (TWISTED, 5_000 / 15_000)
CROWD_P99_MS = 10.0
SAVE = "save"
SAVE_P99 = 3.0  # times its p50, at most
MAX_CHANGE = 0.15


def report(runs: Runs) -> int:
    """Print the table; return 1 if a limit is missed or acknowledged data was lost."""
    failed = False
    print("| scenario | req/s | yardstick | ratio | by CPU | floor | p50 ms | p99 ms | us CPU |")
    print("|---|---:|---|---:|---:|---:|---:|---:|---:|")
    for name, measured in runs.of.items():
        p50 = statistics.median(run.p50_ms for run in measured)
        p99 = statistics.median(run.p99_ms for run in measured)
        cpu = statistics.median(run.server_us for run in measured)
        bound = " (generator bound)" if any(run.generator > 0.9 for run in measured) else ""
        start, end = (
            f"| {name}{bound} | {runs.rate(name):,.0f} |",
            f"| {p50:.1f} | {p99:.1f} | {cpu:.0f} |",
        )
        floors = (MIX_FLOOR,) if name == MIX else FLOORS.get(name, ())
        if not floors:
            print(f"{start} | | | {end}")
        for yardstick, floor in floors:
            ratio, by_cpu = runs.ratio(name, yardstick), runs.ratio_by_cpu(name, yardstick)
            shown = "" if by_cpu is None else f"{by_cpu:.2f}"
            missed = floor is not None and ratio < floor
            failed |= missed
            mark, least = " MISSED" if missed else "", "" if floor is None else f"{floor:.2f}"
            print(f"{start} {yardstick} | {ratio:.2f}{mark} | {shown} | {least} {end}")
        failed |= _harm(name, runs)
    saves = runs.of.get(SAVE, [])
    if saves:
        times = statistics.median(run.p99_ms / run.p50_ms for run in saves)
        failed |= times > SAVE_P99
        print(f"\n{SAVE}: p99 {times:.1f} x p50, at most {SAVE_P99:.0f}")
    for run in runs.of.get(CROWD, []):
        failed |= run.p99_ms > CROWD_P99_MS
        print(f"\n{CROWD}: p99 {run.p99_ms:.1f} ms, at most {CROWD_P99_MS:.0f}")
    return int(failed)


def report_change(few: Runs, many: Runs, accounts: int) -> int:
    """Print how this number of accounts changes the figures; return 1 if they change too much."""
    failed = False
    print(f"| scenario | fresh, req/s | with {accounts:,} accounts | change |")
    print("|---|---:|---:|---:|")
    for name in few.of:
        pairs = zip(many.of[name], few.of[name], strict=True)
        change = statistics.median(m.per_second / f.per_second for m, f in pairs) - 1
        failed |= abs(change) > MAX_CHANGE or _harm(name, few) or _harm(name, many)
        print(f"| {name} | {few.rate(name):,.0f} | {many.rate(name):,.0f} | {change:+.0%} |")
    return int(failed)


def _harm(name: str, runs: Runs) -> bool:
    """Print a scenario's failures and losses; return whether anything was printed."""
    errors = sum(run.errors for run in runs.of[name])
    missing = sum(run.missing for run in runs.of[name])
    if errors or missing:
        print(f"| {name}: {errors} requests failed, {missing} acknowledged changes lost |||||||||")
    return bool(errors or missing)


@define
class FloorTable:
    """The table's rows so far, and the number of rows that missed their limit."""

    rows: list[tuple[str, str, str, str, str]] = field(factory=list)
    missed: int = 0

    def add(
        self, name: str, figure: str, ratio: str = "-", floor: str = "-", good: bool = True
    ) -> None:
        """Add a row; a row that missed its limit fails the run."""
        self.missed += not good
        self.rows.append((name, figure, ratio, floor, "ok" if good else "MISSED"))

    def below(self, name: str, figure: float, unit: str, most: float) -> None:
        """Add a figure that must stay under ``most``."""
        self.add(name, f"{figure:,.1f} {unit}", "-", f"under {most:g}", figure < most)

    def show(self) -> None:
        """Print the table."""
        print("| what | ours | ratio | floor | verdict |\n|---|---:|---:|---:|---|")
        for row in self.rows:
            print("| " + " | ".join(row) + " |")
