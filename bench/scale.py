"""Several processes against one, in one run: live state, requests, chat, and what a crowd needs.

    python -m bench.scale [--seconds 3] [--rounds 2] [--parts polls,accounts,workers]

What counts is CPU: all processes of a round share a core, and the generator has another. Rounds
alternate; figures are medians. Ends with 1 when a floor is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop
from attrs import define, field
from twisted.internet import reactor as twisted_reactor
from twisted.internet.defer import Deferred, gatherResults

from bench.board import WIDTH, engine_cpu, parties_of_four, timed
from bench.chat_servers import ours
from bench.players import PERIODS_S, SESSION_S, START_OF_SESSION
from bench.scale_runs import CALM_RATE, gateway_us, heard, logins, mixed, of, workers
from bench.servers import LOAD_CORE
from svcserver.board.address import Address
from svcserver.board.board import Board
from svcserver.board.engine import RemoteEngine
from svcserver.board.memory import MemoryBoard
from svcserver.board.valkey import ValkeyBoard
from svcserver.metagame.play.presence.store import Online
from svcserver.metagame.social.parties.store import LiveParties, near
from tests.support.valkey import Instance

reactor: Any = twisted_reactor
ACCOUNTS, ACTS_A_SECOND = 100_000, 15_000
ACTS = 20_000  # measured
POLL_US, TWO, AT_100, AT_1000, LATER_MS = 100.0, 0.85, 0.60, 0.85, 5.0
ROOM, HALL = 100, 1_000
CROWD = 100_000
FULL = 0.7  # of a core that is planned with
LINES_A_PLAYER = 1 / 60  # a second, in a room of 100


@define
class Table:
    """Rows as they come, whether a floor was missed, and costs in microseconds by name."""

    missed: int = 0
    costs: dict[str, float] = field(factory=dict)

    def add(self, what: str, figure: str, floor: str = "", good: bool = True) -> None:
        """Print a row."""
        self.missed += not good
        verdict = "" if not floor else "ok" if good else "MISSED"
        print(f"| {what} | {figure} | {floor} | {verdict} |", flush=True)


# -- live state, in this process ------------------------------------------------


def on_the_reactor(work: Callable[[], Awaitable[None]]) -> None:
    """Run it to its end; the reactor runs once a process."""
    failed: list[bool] = []

    def over(result: Any) -> None:
        if result is not None:
            failed.append(True)
            result.printTraceback(file=sys.stderr)
        reactor.stop()

    def begin() -> None:
        Deferred.fromCoroutine(work()).addBoth(over)  # type: ignore[arg-type]

    reactor.callWhenRunning(begin)
    reactor.run()
    if failed:
        raise SystemExit(1)


async def live_state(table: Table, parts: list[str]) -> None:
    """Polls and a hundred thousand accounts, in memory and on an engine."""
    instance = Instance.make()
    instance.start()
    assert instance.process is not None
    engine = RemoteEngine(reactor, Address.read(instance.url))
    engine.startService()
    boards: list[tuple[str, Board, int | None]] = [
        ("in memory", MemoryBoard(time.time), None),
        ("on the engine", ValkeyBoard(engine), instance.process.pid),
    ]
    try:
        if "polls" in parts:
            await polls(table, boards)
        if "accounts" in parts:
            for name, board, pid in boards:
                await accounts(table, name, board, pid)
            said = (await engine.ask("INFO", "memory")).decode()
            used = int(said.partition("used_memory:")[2].split()[0]) / 2**20
            table.add(f"memory of the engine for {ACCOUNTS:,} accounts", f"{used:,.0f} MB")
    finally:
        engine.stopService()
        instance.end()


async def polls(table: Table, boards: list[tuple[str, Board, int | None]]) -> None:
    """A party poll, with a party of four."""
    found = []
    for name, board, pid in boards:
        parties = LiveParties(board)
        players = await parties_of_four(parties)

        async def poll(number: int, parties: Any = parties, players: Any = players) -> None:
            me = players[number * 7 % len(players)]
            await parties.act(lambda rules: rules.standing(rules.poll(me)), near(me))

        await timed(None, poll)
        said = await timed(pid, poll)
        found.append(float(said.split()[0]))
        table.add(f"party poll {name}", said)
        table.costs[f"poll {name}"] = found[-1]
    more = found[1] - found[0]
    table.add("the same, more on the engine", f"{more:.0f} us", f"{POLL_US:.0f}", more <= POLL_US)


async def accounts(table: Table, name: str, board: Board, pid: int | None) -> None:
    """Heartbeats and polls of players of a hundred thousand."""
    parties, online = LiveParties(board), Online(board)
    people = [f"UID-{number:08d}-2222-2222-3333-444444444444" for number in range(ACCOUNTS)]

    async def act(who: str, beat: bool) -> None:
        if beat:
            await online.hear(who, "/Game/Maps/city", "")
        else:
            await parties.act(lambda rules: rules.standing(rules.poll(who)), near(who))

    async def come(first: int) -> None:
        for who in people[first :: 4 * WIDTH]:
            await act(who, True)
            await act(who, False)

    await gatherResults([Deferred.fromCoroutine(come(one)) for one in range(4 * WIDTH)])
    dice = random.Random(1)
    chosen = [(dice.choice(people), dice.random() < 1 / 3) for _ in range(ACTS)]
    cpu, theirs, began = time.process_time(), engine_cpu(pid) if pid else 0.0, time.perf_counter()

    async def some(first: int) -> None:
        for who, beat in chosen[first :: 4 * WIDTH]:
            await act(who, beat)

    await gatherResults([Deferred.fromCoroutine(some(one)) for one in range(4 * WIDTH)])
    wall = time.perf_counter() - began
    us = (time.process_time() - cpu) / ACTS * 1e6
    said = f"{us:.0f} us an act, {ACTS / wall:,.0f} a second on this machine"
    if pid is None:
        table.add(
            f"{ACCOUNTS:,} accounts {name}", said, f"{ACTS_A_SECOND:,}/s", us <= 1e6 / ACTS_A_SECOND
        )
        return
    engine_us = (engine_cpu(pid) - theirs) / ACTS * 1e6
    table.costs |= {"act": us, "act in the engine": engine_us}
    said += f", {engine_us:.0f} us in the engine: {1e6 / engine_us:,.0f} a second of its core"
    good = engine_us <= 1e6 / ACTS_A_SECOND
    table.add(f"{ACCOUNTS:,} accounts {name}", said, f"{ACTS_A_SECOND:,}/s", good)


# -- several processes ------------------------------------------------------------


def requests(table: Table, folder: Path, asked: argparse.Namespace) -> None:
    """Two workers against one."""
    with workers(folder, 2) as some:
        one, two = [], []
        for number in range(asked.rounds):
            for count, found in ((1, one), (2, two))[:: 1 if number % 2 else -1]:
                found.append(mixed(some, count, asked.seconds))
    for name, found in (("one worker", one), ("two workers", two)):
        us, per_cpu = (median(found, of_it) for of_it in ("workers_us", "per_cpu"))
        base, engine = median(found, "database_us"), median(found, "engine_us")
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
    ratio = statistics.median(b.per_cpu / a.per_cpu for a, b in zip(one, two, strict=True))
    table.add(
        "two workers, of one's requests a CPU second", f"{ratio:.0%}", f"{TWO:.0%}", ratio >= TWO
    )
    failed = sum(run.failed for run in (*one, *two))
    table.add("requests failed, or acknowledged and lost", f"{failed}", "0", not failed)


def median(found: list[Any], name: str) -> float:
    """Of one figure over the rounds."""
    return statistics.median(getattr(one, name) for one in found)


def chat(table: Table, folder: Path, asked: argparse.Namespace) -> None:
    """Four processes against one, in a room of a hundred."""
    full, calm = dict[str, list[Any]](), dict[str, list[Any]]()
    with ours(folder, count=ROOM) as alone, workers(folder, 4) as some:
        known, pid = logins(some.ports[0], ROOM), some.engine_pid
        kinds = {"one process in memory": [alone], "four processes": of(some, known, 4)}
        for _ in range(asked.rounds):
            for name, servers in kinds.items():
                run = uvloop.run(heard(servers, ROOM, asked.seconds, engine=pid))
                full.setdefault(name, []).append(run)
                run = uvloop.run(heard(servers, ROOM, asked.seconds, CALM_RATE, pid))
                calm.setdefault(name, []).append(run)
    compared(table, full, ROOM, AT_100)
    one_ms, four_ms = (median(runs, "p99_ms") for runs in calm.values())
    said, good = f"{one_ms:.1f} ms, {four_ms:.1f} ms", four_ms - one_ms <= LATER_MS
    table.add(
        f"p99 at {CALM_RATE:.0f} lines a second: one, four", said, f"+{LATER_MS:.0f} ms", good
    )
    _, four = full.values()
    table.costs["line to 100"] = ROOM / median(four, "per_cpu") * 1e6
    table.costs["line in the engine"] = median(four, "engine_us")


def hall(table: Table, folder: Path, asked: argparse.Namespace) -> None:
    """The same in a room of a thousand, which only processes on an engine have."""
    full = dict[str, list[Any]]()
    with workers(folder, 4) as some:
        known, pid = logins(some.ports[0], HALL), some.engine_pid
        for _ in range(asked.rounds):
            for name, count in (("one process", 1), ("four processes", 4)):
                servers = of(some, known, count)
                run = uvloop.run(heard(servers, HALL, asked.seconds, engine=pid))
                full.setdefault(name, []).append(run)
    compared(table, full, HALL, AT_1000)


def compared(table: Table, full: dict[str, list[Any]], room: int, least: float) -> None:
    """What one process and four deliver in a room of so many."""
    for name, runs in full.items():
        said = f"{median(runs, 'per_cpu'):,.0f} deliveries a CPU second"
        if name != "one process in memory":
            said += f"; engine {median(runs, 'engine_us'):.0f} us a line"
        said += f"; {sum(run.lines for run in runs):,} lines, lost {sum(run.lost for run in runs)}"
        table.add(f"room of {room:,}, {name}", said)
    one, four = (median(runs, "per_cpu") for runs in full.values())
    ratio = four / one
    table.add(f"room of {room:,}: four, of one's", f"{ratio:.0%}", f"{least:.0%}", ratio >= least)


# -- what a crowd needs -------------------------------------------------------------


def crowd(table: Table, folder: Path, asked: argparse.Namespace) -> None:
    """Cores for a hundred thousand players, from the costs of this run."""
    costs = table.costs
    costs["request in the gateway"] = gateway_us(folder, asked.seconds)
    rate = sum(1 / every for every in PERIODS_S.values()) + len(START_OF_SESSION) / SESSION_S
    a_second, lines = rate * CROWD, LINES_A_PLAYER * CROWD
    print(f"\n{CROWD:,} players: {a_second:,.0f} requests and {lines:,.0f} lines a second\n")
    print("| what | us (measured) | times a second (computed) | cores at 70 % (computed) |")
    print("|---|---:|---:|---:|")
    for what, us, times in (
        ("workers: requests", costs.get("request"), a_second),
        ("workers: lines of rooms of 100", costs.get("line to 100"), lines),
        ("PostgreSQL", costs.get("request in PostgreSQL"), a_second),
        ("engine: requests", costs.get("request in the engine"), a_second),
        ("engine: lines", costs.get("line in the engine"), lines),
        ("gateways", costs.get("request in the gateway"), a_second),
    ):
        if us is not None:
            print(f"| {what} | {us:.0f} | {times:,.0f} | {us * times / 1e6 / FULL:.1f} |")


PARTS: dict[str, Callable[[Table, Path, argparse.Namespace], None]] = {
    "workers": requests,
    "chat": chat,
    "hall": hall,
    "crowd": crowd,
}


def main() -> None:
    """Measure and print the tables."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--parts", default="polls,accounts,workers,chat,hall,crowd")
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--rounds", type=int, default=2)
    asked = options.parse_args()
    parts = asked.parts.split(",")
    os.sched_setaffinity(0, {LOAD_CORE} & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    print("| what | measured | floor | |\n|---|---|---|---|")
    table = Table()
    if {"polls", "accounts"} & set(parts):
        on_the_reactor(lambda: live_state(table, parts))
    for name, part in PARTS.items():
        if name in parts:
            with tempfile.TemporaryDirectory() as folder:
                part(table, Path(folder), asked)
    raise SystemExit(1 if table.missed else 0)


if __name__ == "__main__":
    main()
