"""A host after long use compared with an empty host: requests, start and backup.

    python -m bench.used [--accounts 100000] [--items 10000000] [--file FILE]
                         [--scenarios mix,...] [--rounds 3] [--seconds 3]

``--items`` is the number of rows in the item log; the default is a database of 5 GB. ``--file``
keeps the database for the next run, or uses a database that an earlier run or ``bench.population``
has created. The players on the used host own accounts from all parts of the database. The start
reads the database from the disk. The backup runs while 200 players play at their own pace, and the
figure is the longest turn of the event loop.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import uvloop

from bench import turns
from bench.http import scenario
from bench.kept import finish, json_option
from bench.population import key_of, populate
from bench.runs import Runs
from bench.servers import metagame, on_the_generators_core
from bench.table import CROWD, FloorTable

SCENARIOS = "login,heartbeat,character-read,save,inventory,balance,mix"
STEP = 7_919  # between two players' accounts, so that they lie in different pages
MOST = 1.15  # times the CPU time of a request on the empty host
START_S, TURN_MS = 3.0, 20.0
PLAYERS, CROWD_S = 200, 20.0  # during the backup, at their own pace


def keys(accounts: int) -> Iterator[str]:
    """Yield the keys of accounts that are spread over the whole database."""
    return (key_of(n * STEP % accounts) for n in count())


def requests(table: FloorTable, folder: Path, used: Path, arguments: argparse.Namespace) -> None:
    """Compare the CPU time of the scenarios on both hosts."""
    fresh, old, some = Runs(), Runs(), keys(arguments.accounts)
    with ExitStack() as stack:
        few = stack.enter_context(metagame(folder))
        many = stack.enter_context(metagame(folder, "used", DATABASE_URL=f"sqlite:///{used}"))
        for number in range(arguments.rounds):
            for name in arguments.scenarios.split(","):
                order = (False, True) if number % 2 else (True, False)
                for is_used in order:
                    runs, server, owners = (old, many, some) if is_used else (fresh, few, None)
                    measured = scenario(name, server, arguments.players, arguments.seconds, owners)
                    runs.add(name, uvloop.run(measured))
    for name, on_old in old.of.items():
        pairs = zip(on_old, fresh.of[name], strict=True)
        times = statistics.median(run.server_us / empty.server_us for run, empty in pairs)
        us, p50_ms, p99_ms = (
            statistics.median(getattr(run, member) for run in on_old)
            for member in ("server_us", "p50_ms", "p99_ms")
        )
        more = {"p50_ms": p50_ms, "p99_ms": p99_ms}
        table.against(name, us, "us", times, "an empty host", MOST, less=True, **more)
        if wrong := sum(run.errors + run.missing for run in [*on_old, *fresh.of[name]]):
            table.add(f"{name}: failed or lost", wrong, less=True, good=False)


def forget_pages(file: Path) -> None:
    """Remove the file's pages from the system's cache."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def start_and_backup(
    table: FloorTable, folder: Path, used: Path, arguments: argparse.Namespace
) -> None:
    """Measure the start, and the longest turn of the event loop while a backup is made."""
    slow, copy = folder / "turns", used.with_suffix(".backup")
    programs = turns.watching(folder / "programs", slow)
    (folder / "metagame.env").write_text(f"DATABASE_URL=sqlite:///{used}\n")
    command = [str(programs / "svcctl"), "backup", "now", "--database", str(copy)]
    command += ["--env-file", str(folder / "metagame.env")]
    owners = keys(arguments.accounts)
    forget_pages(used)
    began = time.monotonic()
    with metagame(folder, "watched", DATABASE_URL=f"sqlite:///{used}", programs=programs) as game:
        table.below("start", time.monotonic() - began, "s", START_S)
        uvloop.run(scenario(CROWD, game, PLAYERS, turns.START_S, owners))  # the first requests
        began = time.monotonic()
        try:
            backup = subprocess.Popen(command)
            failed = 0
            while backup.poll() is None:
                run = uvloop.run(scenario(CROWD, game, PLAYERS, CROWD_S, owners))
                failed += run.errors + run.missing
            table.add("backup", time.monotonic() - began, "s", less=True)
            failed += backup.returncode != 0
        finally:
            copy.unlink(missing_ok=True)
    longest = turns.longest(slow, began)
    turns.print_turns(longest, began)
    most = longest[0].own_ms if longest else 0.0
    table.below("backup: longest turn of the event loop", most, "ms", TURN_MS)
    if failed:
        table.add("backup: failed or lost", failed, less=True, good=False)


def main() -> None:
    """Measure and print the table."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--accounts", type=int, default=100_000)
    options.add_argument("--items", type=int, default=10_000_000)
    options.add_argument("--file", type=Path)
    options.add_argument("--scenarios", default=SCENARIOS)
    options.add_argument("--players", type=int, default=50)
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--rounds", type=int, default=3)
    json_option(options)
    arguments = options.parse_args()
    table = FloorTable()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        used: Path = (arguments.file or folder / "used.db").absolute()
        if not used.exists():
            populate(used, arguments.accounts, arguments.items)
        on_the_generators_core()
        if arguments.rounds:
            requests(table, folder, used, arguments)
        start_and_backup(table, folder, used, arguments)
    table.print_table()
    raise SystemExit(finish(arguments.json, table.rows))


if __name__ == "__main__":
    main()
