"""``make bench``: the metagame's requests a second on one core, and ratios to the yardsticks.

    python -m bench.http [--scenarios status,login,...] [--players 50] [--seconds 3] [--rounds 3]

Rounds alternate between contestants; figures are medians. The generator runs on another
core; where it uses more than 0.9 of that core the row says so, for then it measured itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop
from attrs import frozen

from bench.client import connect, request
from bench.players import Player
from bench.servers import LOAD_CORE, SERVER_CORE, bare_twisted, metagame

SCENARIOS = (
    "status",
    "login",
    "heartbeat",
    "character-read",
    "save",
    "inventory",
    "balance",
    "mix",
)
FLOORS = {  # requests a second where bare twisted.web gives 15,000 (reads), or outright (writes)
    "status": 8_000,
    "heartbeat": 7_000,
    "login": 1_500,
    "character-read": 4_000,
    "save": 1_500,
    "inventory": 1_500,
    "balance": 5_000,
    "mix": 3_500,
}
SCALED = ("status", "heartbeat")
YARDSTICK_RATE = 15_000
WARM_S = 0.5


@frozen
class Run:
    """One measured stretch."""

    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int
    generator: float  # of its core
    server_us: float  # CPU of the server for one request
    lost: int = 0


async def measure(operations: list[object], pid: int, seconds: float) -> Run:
    """Every player in a closed loop for ``seconds``."""
    taken: list[float] = []
    errors = 0
    recording, stopped = False, False

    async def play(operation: object) -> None:
        nonlocal errors
        while not stopped:
            began = time.perf_counter()
            good = await operation()  # type: ignore[operator]
            if recording:
                taken.append(time.perf_counter() - began)
                errors += not good

    tasks = [asyncio.ensure_future(play(one)) for one in operations]
    await asyncio.sleep(WARM_S)
    recording = True
    cpu, own, began = _cpu_s(pid), time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    recording = False
    wall = time.perf_counter() - began
    cpu, own = _cpu_s(pid) - cpu, time.process_time() - own
    stopped = True
    await asyncio.gather(*tasks)
    taken.sort()
    count = max(1, len(taken))
    return Run(
        len(taken) / wall,
        1000 * taken[count // 2],
        1000 * taken[int(count * 0.99) - 1],
        errors,
        own / wall,
        1e6 * cpu / count,
    )


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def yardstick(port: int, pid: int, players: int, seconds: float) -> Run:
    """The bare resource under the same load."""
    wires = [await connect(port) for _ in range(players)]
    ask = request("GET", "/svc-status")

    def operation(wire: object) -> object:
        async def send() -> bool:
            status, _ = await wire.send(ask)  # type: ignore[attr-defined]
            return bool(status == 200)

        return send

    run = await measure([operation(wire) for wire in wires], pid, seconds)
    for wire in wires:
        wire.close()
    return run


async def scenario(name: str, port: int, pid: int, players: int, seconds: float) -> Run:
    """The metagame under one scenario, with everything acknowledged read back."""
    cast = [Player(port, random.Random(n)) for n in range(players)]
    for player in cast:
        await player.arrive()
        if name == "character-read":
            await player.save()  # a realistic document, not an empty one
    run = await measure([player.operation(name) for player in cast], pid, seconds)
    lost = sum([await player.lost() for player in cast])
    for player in cast:
        player.leave()
    return Run(
        run.per_second, run.p50_ms, run.p99_ms, run.errors, run.generator, run.server_us, lost
    )


def bare_saves(folder: Path, seconds: float) -> float:
    """Documents a second of the bare writer."""
    command = [sys.executable, "-m", "bench.bare_writer", str(folder), str(seconds)]
    pinned = ["taskset", "-c", str(SERVER_CORE), *command]
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        pinned[-2] = fresh
        said = subprocess.run(pinned, check=True, capture_output=True, text=True, timeout=120)
    return float(said.stdout)


def main() -> None:
    """Measure and print the table; exit 1 when a floor is missed or anything was lost."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--scenarios", default=",".join(SCENARIOS))
    options.add_argument("--players", type=int, default=50)
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    os.sched_setaffinity(0, {LOAD_CORE} & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    names = asked.scenarios.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with bare_twisted(folder) as bare, metagame(folder) as game:
            runs = uvloop.run(_rounds(names, bare, game, asked))
        saves = statistics.median(bare_saves(folder, asked.seconds) for _ in range(asked.rounds))
    raise SystemExit(report(runs, saves))


async def _rounds(
    names: list[str], bare: tuple[int, int], game: tuple[int, int], asked: argparse.Namespace
) -> dict[str, list[Run]]:
    runs: dict[str, list[Run]] = {name: [] for name in ("bare twisted.web", *names)}
    for _ in range(asked.rounds):
        runs["bare twisted.web"].append(await yardstick(*bare, asked.players, asked.seconds))
        for name in names:
            runs[name].append(await scenario(name, *game, asked.players, asked.seconds))
    return runs


def report(runs: dict[str, list[Run]], saves: float) -> int:
    """Print the table; 1 when a floor is missed or something acknowledged was lost."""
    rate = statistics.median(run.per_second for run in runs["bare twisted.web"])
    failed = 0
    print("| scenario | req/s | to yardstick | floor | p50 ms | p99 ms | us CPU | errors | lost |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, measured in runs.items():
        per_second = statistics.median(run.per_second for run in measured)
        against = saves if name in ("save", "inventory") else rate
        floor = FLOORS.get(name, 0) * (rate / YARDSTICK_RATE if name in SCALED else 1.0)
        errors = sum(run.errors for run in measured)
        lost = sum(run.lost for run in measured)
        bound = " (generator bound)" if any(run.generator > 0.9 for run in measured) else ""
        failed |= per_second < floor or errors > 0 or lost > 0
        p50 = statistics.median(run.p50_ms for run in measured)
        p99 = statistics.median(run.p99_ms for run in measured)
        cpu = statistics.median(run.server_us for run in measured)
        print(
            f"| {name}{bound} | {per_second:,.0f} | {per_second / against:.2f} | {floor:,.0f} "
            f"| {p50:.1f} | {p99:.1f} | {cpu:.0f} | {errors} | {lost} |"
        )
    print(f"\nbare SQLite writer, one commit a document: {saves:,.0f} saves/s")
    return int(failed)


if __name__ == "__main__":
    main()
