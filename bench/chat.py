"""``make bench-chat``: our chat, Prosody, ejabberd and bare autobahn, on one core each.

    python -m bench.chat [--seconds 4] [--rounds 3] [--logins 300] [--only ours]

The rounds alternate between the servers, and each figure is a median. Our chat and the bare server
check an RS256 token at each login; the other servers compare a password. Memory, the stalled reader
and the flood are measured last.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import uvloop
from attrs import define, field

from bench.chat_runs import Fan, Flood, LoginRun, fan, flood, idle, logins, percentile, stalled
from bench.chat_servers import BARE, PLAYERS, USUAL, Server, contestant, ours
from bench.kept import finish, in_words, json_option
from bench.servers import on_the_generators_core
from bench.table import FloorTable

PROGRAMS = {"prosody": "prosody", "ejabberd": "ejabberdctl"}
CALM_RATE = 30.0  # messages a second to a hundred
STALL_MIB, PING_MS, STATUS_TIMES = 2.0, 200.0, 2.0
BUSY = 0.9  # share of its core above which the load generator measures itself


@define
class Results:
    """The figures of one server, with one value for each round."""

    logins: list[LoginRun] = field(factory=list)
    full: list[Fan] = field(factory=list)
    calm: list[Fan] = field(factory=list)
    idle_kib: float = 0.0

    def median(self, figure: Callable[[Results], list[float]]) -> float:
        """Return the median of a figure over the rounds."""
        return statistics.median(figure(self))


async def race(servers: list[Server], arguments: argparse.Namespace) -> dict[str, Results]:
    """Measure all servers in turn, round after round."""
    results = {server.name: Results() for server in servers}
    for n in range(arguments.rounds):
        for server in servers:
            run = await logins(server, n * arguments.logins, arguments.logins)
            results[server.name].logins.append(run)
        for server in servers:
            results[server.name].full.append(await fan(server, arguments.seconds))
        for server in servers:
            results[server.name].calm.append(await fan(server, 2 * arguments.seconds, CALM_RATE))
    return results


def measure(
    names: list[str], folder: Path, arguments: argparse.Namespace
) -> tuple[dict[str, Results], tuple[bool, float], Flood]:
    """Measure everything; memory is measured on a freshly started server."""
    with ExitStack() as stack:
        up = [stack.enter_context(contestant(name, folder)) for name in names]
        results = uvloop.run(race(up, arguments))
    for name in names:
        with contestant(name, folder) as server:
            results[name].idle_kib = uvloop.run(idle(server))
    with contestant("ours", folder) as server:
        cut = uvloop.run(stalled(server))
    with ours(folder, USUAL) as server:
        return results, cut, uvloop.run(flood(server, arguments.rounds))


CALM = "p99 at 30 messages/s"
FIGURES: dict[str, tuple[str, Callable[[Results], list[float]]]] = {
    "logins": ("/s", lambda results: [run.per_second for run in results.logins]),
    "CPU of a login": ("ms", lambda results: [run.cpu_ms for run in results.logins]),
    "deliveries": ("/s", lambda results: [run.per_second for run in results.full]),
    "CPU for 100,000 deliveries": ("s", lambda results: [run.cpu_s for run in results.full]),
    CALM: ("ms", lambda results: [run.p99_ms for run in results.calm]),
    "an idle connection": ("KiB", lambda results: [results.idle_kib]),
}
LIMITS = (  # the last column: our figure must be the lower one
    ("logins", "prosody", 1.5, False),
    ("logins", "ejabberd", 0.8, False),
    ("logins", BARE, 0.7, False),
    ("CPU of a login", "ejabberd", 1.2, True),
    ("CPU of a login", BARE, 1.5, True),
    ("deliveries", "ejabberd", 2.0, False),
    ("deliveries", "prosody", 8.0, False),
    ("CPU for 100,000 deliveries", "ejabberd", 0.5, True),
    ("CPU for 100,000 deliveries", BARE, 0.7, True),
    (CALM, "ejabberd", 1.0, True),
    (CALM, BARE, 2.0, True),
    ("an idle connection", "prosody", 1.0, True),
)


def compare(table: FloorTable, results: dict[str, Results]) -> None:
    """Add the rows that compare our chat with every other server that is installed."""
    curve = [
        statistics.median(at)
        for at in zip(*(run.latency_ms for run in results["ours"].calm), strict=True)
    ]
    for name, rival, floor, less in LIMITS:
        unit, figure = FIGURES[name]
        mine = results["ours"].median(figure)
        more = {"latency_ms": curve} if name == CALM else {}
        if rival in results:
            ratio = mine / max(results[rival].median(figure), 1e-9)
            table.against(name, mine, unit, ratio, rival, floor, less, **more)
        else:
            table.add(name, mine, unit, less=less, **more)
    for server, entry in results.items():
        missing = sum(run.missing for run in [*entry.full, *entry.calm])
        if missing:
            name = f"{server}: deliveries lost"
            table.add(name, missing, less=True, good=server != "ours")
        busy = max(run.generator for run in [*entry.full, *entry.logins])
        if busy > BUSY:
            table.add(f"{server}: the generator was the limit", 100 * busy, "% of its core")


def abuse(table: FloorTable, cut: tuple[bool, float], noticed: Flood) -> None:
    """Add the rows that show how much harm one client can do to the server."""
    table.add("readers that stall and stay connected", not cut[0], less=True, good=cut[0])
    table.below("a reader that stalls: growth after the warm-up", cut[1], "MiB", STALL_MIB)
    table.below("flood: others' slowest ping", max(noticed.pings) / 1e6, "ms", PING_MS)
    calm, wild = (percentile(taken, 0.95) / 1e6 for taken in (noticed.idle, noticed.status))
    name = "flood: p95 of GET /svc-status"
    table.against(name, wild, "ms", wild / calm, "idle", STATUS_TIMES, less=True)


def everyone(results: dict[str, Results]) -> None:
    """Print all figures of all servers."""
    print("| server | " + " | ".join(FIGURES) + " |\n|---" + "|---:" * len(FIGURES) + "|")
    for name, run in results.items():
        cells = [f"{in_words(run.median(figure))} {unit}" for unit, figure in FIGURES.values()]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print()


def main() -> None:
    """Measure and print the tables; exit with status 1 if a limit is missed."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--logins", type=int, default=300)
    options.add_argument("--only", default="prosody,ejabberd", help="the servers to compare with")
    json_option(options)
    arguments = options.parse_args()
    if arguments.rounds * arguments.logins > PLAYERS:
        options.error(f"rounds times logins must be at most {PLAYERS}")
    wanted = [name for name in PROGRAMS if name in arguments.only.split(",")]
    places = os.environ.get("PATH", os.defpath) + ":/usr/sbin"  # many users' PATH lacks this folder
    here = [name for name in wanted if shutil.which(PROGRAMS[name], path=places)]
    gone = [name for name in wanted if name not in here]
    if gone:
        print(f"not installed: {', '.join(gone)}; install with: apt-get install {' '.join(gone)}")
    on_the_generators_core()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        results, cut, wild = measure(["ours", BARE, *here], Path(name), arguments)
    table = FloorTable()
    compare(table, results)
    abuse(table, cut, wild)
    everyone(results)
    table.print_table()
    raise SystemExit(finish(arguments.json, table.rows))


if __name__ == "__main__":
    main()
