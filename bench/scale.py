"""Several processes compared with one: live state, requests, chat, and capacity for a crowd.

    python -m bench.scale [--seconds 3] [--rounds 2] [--parts polls,accounts,workers] [--json FILE]

The compared figure is CPU time: all processes of a round share a core, and the load generator uses
another core. Only the workers that load the engine with a hundred thousand accounts use all cores.
The rounds alternate, and each figure is a median. The exit status is 1 if a limit is missed.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import uvloop
from attrs import frozen
from twisted.internet import reactor as twisted_reactor
from twisted.internet.defer import Deferred

from bench.acts import ACCOUNTS, Crowd, Stretch, on_the_reactor, together
from bench.acts import workers as crowds
from bench.board import parties_of_four, timed
from bench.chat_servers import ours, register_players
from bench.kept import finish, json_option
from bench.meters import cpu_s
from bench.players import PERIODS_S, SESSION_S, START_OF_SESSION
from bench.scale_runs import (
    CALM_RATE,
    RoomRun,
    first_servers,
    gateway_us,
    mixed,
    talk_in_a_room,
    workers,
)
from bench.servers import CORES, LOAD_CORE, all_cores, on_the_generators_core
from bench.table import FloorTable
from svcserver.board.address import EngineAddress
from svcserver.board.board import Board
from svcserver.board.engine import BoardEngine
from svcserver.board.memory import MemoryBoard
from svcserver.board.valkey import ValkeyBoard
from svcserver.board.waiting import at_once
from svcserver.ctl.doctor.machine import fetch_engine_facts
from svcserver.metagame.social.parties.store import LiveParties, near
from tests.support.valkey import Instance

reactor: Any = twisted_reactor
ACTS_A_SECOND = 15_000  # of 100,000 accounts
APART, FASTER = 5, 1.7  # cores for generator, two workers, PostgreSQL and engine
POLL_US, TWO, AT_100, AT_1000, LATER_MS = 100.0, 0.85, 0.60, 0.85, 5.0
ROOM, HALL = 100, 1_000
CROWD = 100_000
FULL = 0.7  # planned load of a core
REQUESTS_A_PLAYER = sum(1 / every for every in PERIODS_S.values()) + (
    len(START_OF_SESSION) / SESSION_S
)  # a second
LINES_A_PLAYER = 1 / 60  # a second, in a room of 100
ENGINE = "engine"


@frozen
class Cost:
    """The CPU microseconds that a program spends on a request or a chat line of a player."""

    program: str
    us: float
    work: str = "requests"
    a_second: float = REQUESTS_A_PLAYER  # of each player


Costs = list[Cost]


# -- live state, in this process ------------------------------------------------


async def live_state(table: FloorTable) -> None:
    """Measure polls in memory and on an engine."""
    instance = Instance.make()
    instance.start()
    assert instance.process is not None
    engine = BoardEngine(reactor, EngineAddress.parse(instance.url))
    engine.startService()
    try:
        in_memory_us = await polls(table, "in memory", MemoryBoard(time.time), None)
        on_engine_us = await polls(
            table, "on the engine", ValkeyBoard(engine), instance.process.pid
        )
        more = on_engine_us - in_memory_us
        table.below("party poll: extra time on the engine", more, "us", POLL_US)
    finally:
        engine.stopService()
        instance.end()


async def polls(table: FloorTable, name: str, board: Board, pid: int | None) -> float:
    """Measure a poll in a party of four; return the microseconds that it takes this process."""
    parties = LiveParties(board)
    players = await parties_of_four(parties)

    async def poll(number: int) -> None:
        me = players[number * 7 % len(players)]
        await parties.transact_with_rules(lambda rules: rules.standing(rules.poll(me)), near(me))

    await timed(None, poll)  # fill the caches of each player
    cost = await timed(pid, poll)
    times = {"p50_ms": cost.p50_ms, "p99_ms": cost.p99_ms}
    table.add(f"party poll {name}", cost.ours_us, "us", less=True, **times)
    if pid is not None:
        table.add(f"party poll {name}: the engine", cost.engine_us, "us", less=True)
    return cost.ours_us


# -- a hundred thousand accounts ------------------------------------------------


def in_memory(table: FloorTable, seconds: float) -> None:
    """Measure the heartbeats and polls of all accounts on the board of a single process."""
    crowd = Crowd(MemoryBoard(time.time))
    at_once(Deferred.fromCoroutine(crowd.come()))
    run = at_once(Deferred.fromCoroutine(crowd.send_requests(seconds)))
    name = f"{ACCOUNTS:,} accounts in memory"
    table.above(name, run.per_second, "actions/s", ACTS_A_SECOND, cpu_us=run.us)


def accounts(table: FloorTable, _: Costs, __: Path, arguments: argparse.Namespace) -> None:
    """Measure heartbeats and polls of all accounts, in memory and on a live-state engine.

    The engine gets the requests of several workers, which run concurrently on all cores.
    """
    in_memory(table, arguments.seconds)
    count = max(2, len(CORES) - 1)  # the engine has its own core if there are enough
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
        used = (
            int(fetch_engine_facts(EngineAddress.parse(instance.url), 5.0).info["used_memory"])
            / 2**20
        )
    finally:
        instance.end()
    for driving, rounds in rounds_of.items():
        driven(table, driving, rounds)
    table.add(f"memory of the engine for {ACCOUNTS:,} accounts", used, "MB", less=True)


def driven(table: FloorTable, driving: int, rounds: list[tuple[list[Stretch], float]]) -> None:
    """Add the rows about the rounds in which ``driving`` workers sent requests to the engine."""
    rate = statistics.median(sum(run.per_second for run in runs) for runs, _ in rounds)
    us = statistics.median(run.us for runs, _ in rounds for run in runs)
    engine_us = statistics.median(
        theirs / sum(run.acts for run in runs) * 1e6 for runs, theirs in rounds
    )
    name = f"{ACCOUNTS:,} accounts on the engine, {driving} worker{'s' * (driving > 1)}"
    if driving == 1:
        table.add(name, rate, "actions/s", cpu_us=us)
        return
    table.above(name, rate, "actions/s", ACTS_A_SECOND, cpu_us=us)
    table.add(f"{name}: the engine", engine_us, "us", less=True)
    table.add("actions on a fully used engine (computed)", 1e6 / engine_us, "actions/s")


# -- several processes ------------------------------------------------------------


def requests(table: FloorTable, costs: Costs, folder: Path, arguments: argparse.Namespace) -> None:
    """Compare the cost of a request with two workers to the cost with one."""
    with workers(folder, 2) as some:
        single, two = [], []
        for number in range(arguments.rounds):
            for count, runs in ((1, single), (2, two))[:: 1 if number % 2 else -1]:
                runs.append(mixed(some, count, arguments.seconds))
    one_us, two_us = median(single, "workers_us"), median(two, "workers_us")
    table.add("mix, one worker", 1e6 / one_us, "/CPU s", cpu_us=one_us)
    ratio = statistics.median(b.per_cpu / a.per_cpu for a, b in zip(single, two, strict=True))
    name = "mix, two workers"
    table.against(name, 1e6 / two_us, "/CPU s", ratio, "one worker", TWO, cpu_us=two_us)
    beside = Cost("PostgreSQL", median(two, "database_us")), Cost(ENGINE, median(two, "engine_us"))
    for cost in beside:
        table.add(f"{name}: {cost.program}", cost.us, "us", less=True)
    costs += [Cost("workers", two_us), *beside]
    if failed := sum(run.failed for run in (*single, *two)):
        table.add("mix: failed or lost", failed, less=True, good=False)
    if len(CORES) >= APART:
        by_the_clock(table, folder, arguments)


def by_the_clock(table: FloorTable, folder: Path, arguments: argparse.Namespace) -> None:
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
    rate = statistics.median(two for _, two in rates)
    table.against("two workers on cores of their own", rate, "/s", ratio, "one worker", FASTER)


def median(runs: Sequence[Any], name: str) -> float:
    """Return the median of one figure over the rounds."""
    return statistics.median(getattr(run, name) for run in runs)


def chat(table: FloorTable, costs: Costs, folder: Path, arguments: argparse.Namespace) -> None:
    """Compare four chat processes with a single one, in a room of a hundred clients."""
    alone, four, calm_alone, calm_four = (list[RoomRun]() for _ in range(4))
    with ours(folder, count=ROOM) as server, workers(folder, 4) as some:
        known, pid = register_players(some.ports[0], ROOM), some.engine_pid
        kinds = (([server], alone, calm_alone), (first_servers(some, known, 4), four, calm_four))
        for _ in range(arguments.rounds):
            for servers, full, calm in kinds:
                for runs, rate in ((full, 0.0), (calm, CALM_RATE)):
                    talk = talk_in_a_room(servers, ROOM, arguments.seconds, rate, pid)
                    runs.append(uvloop.run(talk))
    compared(table, alone, four, ROOM, AT_100)
    name, one_ms = f"{CALM_RATE:.0f} lines a second to {ROOM}", median(calm_alone, "p99_ms")
    more_ms = median(calm_four, "p99_ms") - one_ms
    table.add(f"{name}: p99 of one process", one_ms, "ms", less=True)
    table.below(f"{name}: extra p99 of four processes", more_ms, "ms", LATER_MS)
    lines = f"lines to {ROOM}", LINES_A_PLAYER
    costs += [
        Cost("workers", ROOM / median(four, "per_cpu") * 1e6, *lines),
        Cost(ENGINE, median(four, "engine_us"), *lines),
    ]


def hall(table: FloorTable, _: Costs, folder: Path, arguments: argparse.Namespace) -> None:
    """Compare four chat processes with a single one, in a room of a thousand clients.

    Only processes that share an engine allow such a room.
    """
    alone, four = list[RoomRun](), list[RoomRun]()
    with workers(folder, 4) as some:
        known, pid = register_players(some.ports[0], HALL), some.engine_pid
        for _ in range(arguments.rounds):
            for runs, count in ((alone, 1), (four, 4)):
                servers = first_servers(some, known, count)
                talk = talk_in_a_room(servers, HALL, arguments.seconds, engine=pid)
                runs.append(uvloop.run(talk))
    compared(table, alone, four, HALL, AT_1000)


def compared(
    table: FloorTable, alone: list[RoomRun], four: list[RoomRun], room: int, least: float
) -> None:
    """Add the rows that compare four processes with a single one, in a room of ``room`` clients."""
    unit, name = "deliveries/CPU s", f"room of {room:,}"
    single, several = median(alone, "per_cpu"), median(four, "per_cpu")
    table.add(f"{name}, one process", single, unit)
    ratio = several / single
    table.against(f"{name}, four processes", several, unit, ratio, "one process", least)
    line_us = median(four, "engine_us")
    table.add(f"{name}, four processes: the engine, a line", line_us, "us", less=True)
    if missing := sum(run.missing for run in (*alone, *four)):
        table.add(f"{name}: lost deliveries", missing, less=True, good=False)


# -- what a crowd needs -------------------------------------------------------------


def crowd(table: FloorTable, costs: Costs, folder: Path, arguments: argparse.Namespace) -> None:
    """Compute how many cores a hundred thousand players need, from the costs of this run."""
    costs.append(Cost("gateways", gateway_us(folder, arguments.seconds)))
    for cost in costs:
        what = f"{CROWD:,} players (computed): {cost.program}, {cost.work}"
        cores = cost.us * cost.a_second * CROWD / 1e6 / FULL
        table.add(what, cores, "cores", less=True, cpu_us=cost.us)
    engine_us = sum(cost.us * cost.a_second for cost in costs if cost.program == ENGINE)
    if engine_us:
        what = f"players for whom the engine's core is {FULL:.0%} busy (computed)"
        table.add(what, FULL * 1e6 / engine_us, "players")


PARTS: dict[str, Callable[[FloorTable, Costs, Path, argparse.Namespace], None]] = {
    "accounts": accounts,
    "workers": requests,
    "chat": chat,
    "hall": hall,
    "crowd": crowd,
}


def main() -> None:
    """Measure and print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--parts", default="polls,accounts,workers,chat,hall,crowd")
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--rounds", type=int, default=2)
    json_option(options)
    arguments = options.parse_args()
    parts, table, costs = arguments.parts.split(","), FloorTable(), Costs()
    on_the_generators_core()
    if "polls" in parts:
        on_the_reactor(lambda: live_state(table))
    for name, part in PARTS.items():
        if name in parts:
            with tempfile.TemporaryDirectory() as folder:
                part(table, costs, Path(folder), arguments)
    table.print_table()
    raise SystemExit(finish(arguments.json, table.rows))


if __name__ == "__main__":
    main()
