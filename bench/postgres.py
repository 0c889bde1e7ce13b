"""``python -m bench.http --database postgresql``: a request's cost on PostgreSQL and on SQLite.

Two metagames on one core, one per database, take turns with the same players. The compared figure
is the metagame's CPU time per request. The table also shows PostgreSQL's own CPU time and the
number of transactions that the metagame had to retry.
"""

from __future__ import annotations

import argparse
import statistics
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop
from attrs import define, field

from bench.kept import Measurement, finish
from bench.meters import cpu_s
from bench.runs import Run, Runs
from bench.servers import free_port, metagame
from tests.support.postgres import Instance

Scenario = Callable[[str, tuple[int, int], int, float], Awaitable[Run]]
SCENARIOS = ("balance", "party", "character-read", "save", "inventory", "mix")
PLAYERS = 16
# maximum ratio of a request's CPU on PostgreSQL to that on SQLite
MOST = {"balance": 2.5, "party": 2.0, "inventory": 4.0, "save": 3.0, "mix": 2.0}
MOST_RERUN = 0.02
RERUN = "svc_metagame_rerun_transactions_total"


@define
class Engine:
    """The work of PostgreSQL for each scenario and round."""

    instance: Instance
    metrics_port: int
    us: dict[str, list[float]] = field(factory=dict)  # its CPU for one request
    rerun: dict[str, list[float]] = field(factory=dict)  # transactions run again for one request

    def watch(self, name: str, seconds: float, measured: Callable[[], Run]) -> Run:
        """Return the result of ``measured``, and record PostgreSQL's work during the call."""
        cpu, rerun = self._cpu(), self._rerun()
        run = measured()
        requests = max(1.0, run.per_second * (seconds + 0.5))  # about: the warm-up counts, too
        self.us.setdefault(name, []).append(1e6 * (self._cpu() - cpu) / requests)
        self.rerun.setdefault(name, []).append((self._rerun() - rerun) / requests)
        return run

    def _cpu(self) -> float:
        first = int((self.instance.data / "postmaster.pid").read_text().split()[0])
        seconds = 0.0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            if first in (int(fields[1]), int(stat.parent.name)):
                seconds += cpu_s(int(stat.parent.name))
        return seconds

    def _rerun(self) -> float:
        where = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(where, timeout=10) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(RERUN))


@contextmanager
def engine() -> Iterator[Engine]:
    """Start a PostgreSQL with Debian's default settings: every commit is on disk."""
    instance = Instance.make()
    instance.start()
    try:
        yield Engine(instance, free_port())
    finally:
        instance.end()


def compare(
    names: list[str], folder: Path, arguments: argparse.Namespace, scenario: Scenario
) -> int:
    """Measure on both databases in turn, and print the table."""
    few, many = Runs(), Runs()
    with ExitStack() as stack:
        beside = stack.enter_context(engine())
        plain = stack.enter_context(metagame(folder))
        more = {
            "DATABASE_URL": beside.instance.database(),
            "METRICS_PORT": str(beside.metrics_port),
        }
        on_postgresql = stack.enter_context(metagame(folder, "postgres", **more))

        def on_sqlite(name: str) -> None:
            few.add(name, uvloop.run(scenario(name, plain, arguments.players, arguments.seconds)))

        def on_postgres(name: str) -> None:
            def run() -> Run:
                return uvloop.run(
                    scenario(name, on_postgresql, arguments.players, arguments.seconds)
                )

            many.add(name, beside.watch(name, arguments.seconds, run))

        for number in range(arguments.rounds):
            for name in names:
                for measure in (on_sqlite, on_postgres)[:: 1 if number % 2 else -1]:
                    measure(name)
    return finish(arguments.json, report(few, many, beside))


def report(few: Runs, many: Runs, beside: Engine) -> list[Measurement]:
    """Print the table and return its rows, of which some are bad if a limit or data was lost."""
    rows: list[Measurement] = []
    print("| scenario | req/s | p99 ms | us CPU | on PostgreSQL: req/s | p99 ms | us CPU", end="")
    print(" | times | at most | PostgreSQL's us CPU | run again |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, measured in few.of.items():
        pairs = list(zip(many.of[name], measured, strict=True))
        times = statistics.median(
            first.server_us / max(two.server_us, 1e-9) for first, two in pairs
        )
        rerun = statistics.median(beside.rerun[name])
        missed = times > MOST.get(name, times) or rerun > MOST_RERUN
        wrong = sum(run.errors + run.missing for pair in pairs for run in pair)
        own, most = statistics.median(run.server_us for run in many.of[name]), MOST.get(name)
        rows.append(
            Measurement(
                name,
                own,
                "us",
                less=True,
                ratio=times,
                yardstick="SQLite",
                limit=f"at most {most}" if most else "",
                good=not missed and not wrong,
                p50_ms=statistics.median(run.p50_ms for run in many.of[name]),
                p99_ms=statistics.median(run.p99_ms for run in many.of[name]),
                latency_ms=many.latency_ms(name),
            )
        )
        engine_us = statistics.median(beside.us[name])
        rows.append(Measurement(f"{name}: PostgreSQL itself", engine_us, "us", less=True))
        cells = [name, *_cells(measured), *_cells(many.of[name]), f"{times:.2f}"]
        cells += [f"{MOST[name]:.1f}" if name in MOST else ""]
        cells += [f"{engine_us:.0f}", f"{rerun:.2%}"]
        print(f"| {' | '.join(cells)} |{' MISSED' if missed else ''}")
        if wrong:
            print(f"| {name}: {wrong} requests failed or acknowledged changes lost |")
    return rows


def _cells(runs: list[Run]) -> list[str]:
    return [
        f"{statistics.median(run.per_second for run in runs):,.0f}",
        f"{statistics.median(run.p99_ms for run in runs):.1f}",
        f"{statistics.median(run.server_us for run in runs):.0f}",
    ]
