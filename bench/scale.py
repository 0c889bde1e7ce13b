"""Several processes compared with one: live state, requests, chat, and capacity for a crowd.

    python -m bench.scale [--seconds 3] [--rounds 2] [--parts polls,accounts,workers] [--page FILE]
                          [--json FILE]

The compared figure is CPU time: all processes of a round share a core, and the load generator uses
another core. Only the workers that load the engine with a hundred thousand accounts use all cores.
The rounds alternate, and each figure is a median. The exit status is 1 if a limit is missed.
``--page`` writes the tables into that page, between two markers.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import uvloop
from attrs import define, field
from twisted.internet import reactor as twisted_reactor
from twisted.internet.defer import Deferred

from bench.acts import ACCOUNTS, Crowd, Stretch, on_the_reactor, together
from bench.acts import workers as crowds
from bench.board import parties_of_four, timed
from bench.chat_servers import ours, register_players
from bench.kept import Measurement, finish, json_option
from bench.meters import cpu_s
from bench.players import PERIODS_S, SESSION_S, START_OF_SESSION
from bench.scale_runs import CALM_RATE, gateway_us, mixed, of, talk_in_a_room, workers
from bench.servers import CORES, LOAD_CORE, all_cores, on_the_generators_core
from svcserver.board.address import EngineAddress
from svcserver.board.board import Board
from svcserver.board.engine import BoardEngine
from svcserver.board.memory import MemoryBoard
from svcserver.board.valkey import ValkeyBoard
from svcserver.board.waiting import at_once
from svcserver.ctl.doctor.machine import ask
from svcserver.metagame.social.parties.store import LiveParties, near
from tests.support.valkey import Instance

reactor: Any = twisted_reactor
ACTS_A_SECOND = 15_000  # of 100,000 accounts
APART, FASTER = 5, 1.7  # cores for generator, two workers, PostgreSQL and engine
POLL_US, TWO, AT_100, AT_1000, LATER_MS = 100.0, 0.85, 0.60, 0.85, 5.0
ROOM, HALL = 100, 1_000
CROWD = 100_000
FULL = 0.7  # planned load of a core
LINES_A_PLAYER = 1 / 60  # a second, in a room of 100
MARKS = "<!-- bench.scale --page begins -->\n", "<!-- bench.scale --page ends -->\n"


@define
class Table:
    """The table's rows so far, whether a limit was missed, and named costs in microseconds."""

    missed: int = 0
    costs: dict[str, float] = field(factory=dict)
    lines: list[str] = field(factory=list)
    rows: list[Measurement] = field(factory=list)

    def say(self, line: str) -> None:
        """Print a line, and keep it for the page."""
        self.lines.append(line)
        print(line, flush=True)

    def add(
        self,
        what: str,
        figure: str,
        floor: str = "",
        good: bool = True,
        value: tuple[float, str] | None = None,
    ) -> None:
        """Add a row to the table and print it; ``--json`` writes the rows that have a value."""
        if value is not None:
            self.rows.append(Measurement(what, *value, limit=floor, good=good))
        self.missed += not good
        verdict = "" if not floor else "ok" if good else "MISSED"
        self.say(f"| {what} | {figure} | {floor} | {verdict} |")


# -- live state, in this process ------------------------------------------------


async def live_state(table: Table) -> None:
    """Measure polls in memory and on an engine."""
    instance = Instance.make()
    instance.start()
    assert instance.process is not None
    engine = BoardEngine(reactor, EngineAddress.parse(instance.url))
    engine.startService()
    try:
        await polls(
            table,
            [
                ("in memory", MemoryBoard(time.time), None),
                ("on the engine", ValkeyBoard(engine), instance.process.pid),
            ],
        )
    finally:
        engine.stopService()
        instance.end()


async def polls(table: Table, boards: list[tuple[str, Board, int | None]]) -> None:
    """Measure a party poll in a party of four."""
    costs = []
    for name, board, pid in boards:
        parties = LiveParties(board)
        players = await parties_of_four(parties)

        async def poll(number: int, parties: Any = parties, players: Any = players) -> None:
            me = players[number * 7 % len(players)]
            await parties.act(lambda rules: rules.standing(rules.poll(me)), near(me))

        await timed(None, poll)
        figures = await timed(pid, poll)
        costs.append(float(figures.split()[0]))
        table.add(f"party poll {name}", figures)
        table.costs[f"poll {name}"] = costs[-1]
    more = costs[1] - costs[0]
    what = "party poll: extra time on the engine"
    table.add(what, f"{more:.0f} us", f"{POLL_US:.0f}", more <= POLL_US, (more, "us"))


# -- a hundred thousand accounts ------------------------------------------------


def in_memory(table: Table, seconds: float) -> None:
    """Measure the heartbeats and polls of all accounts on the board of a single process."""
    crowd = Crowd(MemoryBoard(time.time))
    at_once(Deferred.fromCoroutine(crowd.come()))
    run = at_once(Deferred.fromCoroutine(crowd.act(seconds)))
    figure = f"{run.us:.0f} us for each action, {run.per_second:,.0f} actions a second"
    good = run.per_second >= ACTS_A_SECOND
    table.add(f"{ACCOUNTS:,} accounts in memory", figure, f"{ACTS_A_SECOND:,}/s", good)


def accounts(table: Table, _: Path, arguments: argparse.Namespace) -> None:
    """Measure heartbeats and polls of all accounts, in memory and on a live-state engine.

    The engine gets the requests of several workers, which run concurrently on all cores.
    """
    in_memory(table, arguments.seconds)
    cores = len(CORES)
    count = max(2, cores - 1)  # the engine has its own core if there are enough
    instance = Instance.make()
    with all_cores():
        instance.start()
    assert instance.process is not None
    pid, rounds_of = instance.process.pid, dict[int, list[tuple[list[Stretch], float]]]()
    try:
        with all_cores(), crowds(instance.url, count) as some:
            for _ in range(arguments.rounds):
                for driving in (1, count):
                    theirs = cpu_s(pid)
                    runs = together(some[:driving], arguments.seconds)
                    rounds_of.setdefault(driving, []).append((runs, cpu_s(pid) - theirs))
        used = int(ask(EngineAddress.parse(instance.url), 5.0).info["used_memory"]) / 2**20
    finally:
        instance.end()
    for driving, rounds in rounds_of.items():
        driven(table, driving, rounds, cores)
    table.add(f"memory of the engine for {ACCOUNTS:,} accounts", f"{used:,.0f} MB")


def driven(
    table: Table, driving: int, rounds: list[tuple[list[Stretch], float]], cores: int
) -> None:
    """Add the rows about the rounds in which ``driving`` workers sent requests to the engine."""
    rate = statistics.median(sum(run.per_second for run in runs) for runs, _ in rounds)
    us = statistics.median(run.us for runs, _ in rounds for run in runs)
    engine_us = statistics.median(
        theirs / sum(run.acts for run in runs) * 1e6 for runs, theirs in rounds
    )
    figure = (
        f"{rate:,.0f} actions a second on {cores} cores; {us:.0f} us in the worker, "
        f"{engine_us:.0f} us in the engine (its core {rate * engine_us / 1e6:.0%} busy)"
    )
    what = f"{ACCOUNTS:,} accounts on the engine, {driving} worker{'s' * (driving > 1)}"
    if driving == 1:
        table.add(what, figure)
        return
    table.costs |= {"act": us, "act in the engine": engine_us}
    table.add(what, figure, f"{ACTS_A_SECOND:,}/s", rate >= ACTS_A_SECOND)
    what = "accounts on the engine, its core fully used (computed)"
    table.add(what, f"{1e6 / engine_us:,.0f} actions a second")


# -- several processes ------------------------------------------------------------


def requests(table: Table, folder: Path, arguments: argparse.Namespace) -> None:
    """Compare the cost of a request with two workers to the cost with one."""
    with workers(folder, 2) as some:
        single, two = [], []
        for number in range(arguments.rounds):
            for count, runs in ((1, single), (2, two))[:: 1 if number % 2 else -1]:
                runs.append(mixed(some, count, arguments.seconds))
    for name, runs in (("one worker", single), ("two workers", two)):
        us, per_cpu = (median(runs, of_it) for of_it in ("workers_us", "per_cpu"))
        base, engine = median(runs, "database_us"), median(runs, "engine_us")
        table.add(
            f"mix, {name}",
            f"{per_cpu:,.0f} requests a CPU second ({us:.0f} us; PostgreSQL {base:.0f} us, "
            f"engine {engine:.0f} us)",
        )
    table.costs |= {
        "request": median(two, "workers_us"),
        "request in PostgreSQL": median(two, "database_us"),
        "request in the engine": median(two, "engine_us"),
    }
    ratio = statistics.median(b.per_cpu / a.per_cpu for a, b in zip(single, two, strict=True))
    what = "requests a CPU second: two workers compared with one"
    table.add(what, f"{ratio:.0%}", f"{TWO:.0%}", ratio >= TWO, (100 * ratio, "%"))
    failed = sum(run.failed for run in (*single, *two))
    table.add("requests failed, or acknowledged and lost", f"{failed}", "0", not failed)
    if len(CORES) >= APART:
        by_the_clock(table, folder, arguments)


def by_the_clock(table: Table, folder: Path, arguments: argparse.Namespace) -> None:
    """Compare requests per second instead of CPU time, with a core for each process."""
    spare = sorted(CORES - {LOAD_CORE})
    with ExitStack() as stack:
        with all_cores():  # PostgreSQL and the engine may use all cores as well
            some = stack.enter_context(workers(folder, 2, spare))
        rates = [
            [mixed(some, count, arguments.seconds).per_second for count in (1, 2)]
            for _ in range(arguments.rounds)
        ]
    ratio = statistics.median(two / single for single, two in rates)
    figure = f"{ratio:.2f} x one's requests a second"
    table.add("two workers on cores of their own", figure, f"{FASTER} x", ratio >= FASTER)


def median(runs: list[Any], name: str) -> float:
    """Return the median of one figure over the rounds."""
    return statistics.median(getattr(run, name) for run in runs)


def chat(table: Table, folder: Path, arguments: argparse.Namespace) -> None:
    """Compare four chat processes with a single one, in a room of a hundred clients."""
    full, calm = dict[str, list[Any]](), dict[str, list[Any]]()
    with ours(folder, count=ROOM) as alone, workers(folder, 4) as some:
        known, pid = register_players(some.ports[0], ROOM), some.engine_pid
        kinds = {"one process in memory": [alone], "four processes": of(some, known, 4)}
        for _ in range(arguments.rounds):
            for name, servers in kinds.items():
                run = uvloop.run(talk_in_a_room(servers, ROOM, arguments.seconds, engine=pid))
                full.setdefault(name, []).append(run)
                run = uvloop.run(talk_in_a_room(servers, ROOM, arguments.seconds, CALM_RATE, pid))
                calm.setdefault(name, []).append(run)
    compared(table, full, ROOM, AT_100)
    one_ms, four_ms = (median(runs, "p99_ms") for runs in calm.values())
    figure, good = f"one {one_ms:.1f} ms; four {four_ms:.1f} ms", four_ms - one_ms <= LATER_MS
    what = f"p99 at {CALM_RATE:.0f} lines a second: one process, four processes"
    table.add(what, figure, f"+{LATER_MS:.0f} ms", good)
    _, four = full.values()
    table.costs["line to 100"] = ROOM / median(four, "per_cpu") * 1e6
    table.costs["line in the engine"] = median(four, "engine_us")


def hall(table: Table, folder: Path, arguments: argparse.Namespace) -> None:
    """Compare four chat processes with a single one, in a room of a thousand clients.

    Only processes that share an engine allow such a room.
    """
    full = dict[str, list[Any]]()
    with workers(folder, 4) as some:
        known, pid = register_players(some.ports[0], HALL), some.engine_pid
        for _ in range(arguments.rounds):
            for name, count in (("one process", 1), ("four processes", 4)):
                servers = of(some, known, count)
                run = uvloop.run(talk_in_a_room(servers, HALL, arguments.seconds, engine=pid))
                full.setdefault(name, []).append(run)
    compared(table, full, HALL, AT_1000)


def compared(table: Table, full: dict[str, list[Any]], room: int, least: float) -> None:
    """Add the rows that compare four processes with a single one, in a room of ``room`` clients."""
    for name, runs in full.items():
        figure = f"{median(runs, 'per_cpu'):,.0f} deliveries a CPU second"
        if name != "one process in memory":
            figure += f"; engine {median(runs, 'engine_us'):.0f} us a line"
        figure += (
            f"; {sum(run.lines for run in runs):,} lines, lost {sum(run.missing for run in runs)}"
        )
        table.add(f"room of {room:,}, {name}", figure)
    single, four = (median(runs, "per_cpu") for runs in full.values())
    ratio = four / single
    what = f"room of {room:,}: four processes compared with one"
    table.add(what, f"{ratio:.0%}", f"{least:.0%}", ratio >= least, (100 * ratio, "%"))


# -- what a crowd needs -------------------------------------------------------------


def crowd(table: Table, folder: Path, arguments: argparse.Namespace) -> None:
    """Compute how many cores a hundred thousand players need, from the costs of this run."""
    costs = table.costs
    costs["request in the gateway"] = gateway_us(folder, arguments.seconds)
    rate = sum(1 / every for every in PERIODS_S.values()) + len(START_OF_SESSION) / SESSION_S
    a_second, lines = rate * CROWD, LINES_A_PLAYER * CROWD
    table.say(f"\n### What {CROWD:,} players need\n")
    table.say(f"{CROWD:,} players: {a_second:,.0f} requests and {lines:,.0f} lines a second.\n")
    table.say(
        "| what | us each (measured) | a second (computed) | cores needed at 70 % load (computed) |"
    )
    table.say("|---|---:|---:|---:|")
    for what, us, times in (
        ("workers: requests", costs.get("request"), a_second),
        ("workers: lines of rooms of 100", costs.get("line to 100"), lines),
        ("PostgreSQL", costs.get("request in PostgreSQL"), a_second),
        ("engine: requests", costs.get("request in the engine"), a_second),
        ("engine: lines", costs.get("line in the engine"), lines),
        ("gateways", costs.get("request in the gateway"), a_second),
    ):
        if us is not None:
            cores = us * times / 1e6 / FULL
            table.say(f"| {what} | {us:.0f} | {times:,.0f} | {cores:.1f} |")
    used = costs.get("request in the engine", 0) * rate
    used += costs.get("line in the engine", 0) * LINES_A_PLAYER
    if used:
        table.say(
            f"\nThe engine uses one core. At {FULL * 1e6 / used:,.0f} players, {FULL:.0%} of it is "
            "used (computed). A faster core helps; a second engine does not."
        )


PARTS: dict[str, Callable[[Table, Path, argparse.Namespace], None]] = {
    "accounts": accounts,
    "workers": requests,
    "chat": chat,
    "hall": hall,
    "crowd": crowd,
}


def into(page: Path, lines: list[str]) -> None:
    """Write the tables into the page, between its two ``MARKS``."""
    begins, ends = MARKS
    head, _, rest = page.read_text().partition(begins)
    _, mark, tail = rest.partition(ends)
    if not mark:
        raise SystemExit(f"{page} has no marks that show where the tables go")
    tables = "\n".join(lines)
    page.write_text(f"{head}{begins}\n{tables}\n\n{ends}{tail}")


def main() -> None:
    """Measure and print the tables."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--parts", default="polls,accounts,workers,chat,hall,crowd")
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--page", type=Path)
    json_option(options)
    arguments = options.parse_args()
    parts = arguments.parts.split(",")
    table, began = Table(), time.monotonic()
    table.say(
        f"Measured on {len(CORES)} cores (load before the run: {os.getloadavg()[0]:.1f}), "
        f"in {arguments.rounds} rounds of {arguments.seconds:g} s.\n"
    )
    on_the_generators_core()
    table.say("| what | measured | floor | verdict |\n|---|---|---|---|")
    if "polls" in parts:
        on_the_reactor(lambda: live_state(table))
    for name, part in PARTS.items():
        if name in parts:
            with tempfile.TemporaryDirectory() as folder:
                part(table, Path(folder), arguments)
    table.say(
        f"\nAll figures in this section are from one run of {time.monotonic() - began:.0f} s."
    )
    if arguments.page is not None:
        into(arguments.page, table.lines)
    raise SystemExit(finish(arguments.json, table.rows) or bool(table.missed))


if __name__ == "__main__":
    main()
