"""``python -m bench.http --database postgresql``: a request's cost on PostgreSQL and on SQLite.

Two metagames on one core, one per database, take turns with the same players. The compared figure
is the metagame's CPU time per request. The table also shows PostgreSQL's own CPU time and the
number of transactions that the metagame had to retry.
"""

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
from bench.table import FloorTable
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
    """PostgreSQL's CPU time per request, and the retried transactions per request.

    There is a list for each scenario, with a figure for each round.
    """

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
                continue  # the process has ended
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
    """Start PostgreSQL with Debian's default settings, under which every commit is on disk."""
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
    """Print and return the rows; ``good`` is false if a limit is missed or data was lost."""
    table = FloorTable()
    for name, on_postgres in many.of.items():
        us, p50_ms, p99_ms = (
            statistics.median(getattr(run, member) for run in on_postgres)
            for member in ("server_us", "p50_ms", "p99_ms")
        )
        pairs = zip(on_postgres, few.of[name], strict=True)
        times = statistics.median(
            run.server_us / max(beside_it.server_us, 1e-9) for run, beside_it in pairs
        )
        more = {"p50_ms": p50_ms, "p99_ms": p99_ms, "latency_ms": many.latency_ms(name)}
        table.against(name, us, "us", times, "SQLite", MOST.get(name, 0.0), less=True, **more)
        table.add(f"{name}: PostgreSQL itself", statistics.median(beside.us[name]), "us", less=True)
        if rerun := statistics.median(beside.rerun[name]):
            table.below(f"{name}: run again", 100 * rerun, "%", 100 * MOST_RERUN)
        wrong = sum(run.errors + run.missing for run in [*on_postgres, *few.of[name]])
        if wrong:
            table.add(f"{name}: failed or lost", wrong, less=True, good=False)
    table.print_table()
    return table.rows
