"""``make bench``: the metagame's requests per second on one core, and ratios to the baselines.

    python -m bench.http [--scenarios status,login,...] [--players 50] [--seconds 3] [--rounds 5]
                         [--crowd 1500] [--crowd-seconds 600]
                         [--beside DIR] [--database postgresql]

The rounds alternate between the servers, and a ratio is the median of the ratios per round, so that
other load on the machine affects both sides. The load generator runs on another core. If the
generator used more than 0.9 of that core, and therefore limited the figure, the row notes this.
``--beside`` compares the CPU time of requests with that of another checkout's metagame. The exit
status is 1 if a limit is missed, a request fails, or acknowledged data is missing afterwards.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import uvloop

from bench import by_wrk
from bench.client import Connection, connect, request
from bench.kept import finish, json_option
from bench.players import Player
from bench.postgres import PLAYERS, compare
from bench.postgres import SCENARIOS as ON_BOTH
from bench.runs import Run, Runs, crowd, measure, storm
from bench.servers import (
    bare_store,
    bare_twisted,
    bare_uvicorn,
    metagame,
    on_the_generators_core,
    pinned,
)
from bench.table import (
    BEATS_BY_WRK,
    CROWD,
    FLOORS,
    MIX,
    STORM,
    TWISTED,
    TWISTED_BY_WRK,
    UVICORN,
    alone,
    bare,
    report,
    report_beside,
)

SCENARIOS = (*FLOORS, STORM, MIX)
LOGINS = 3_000  # at once
Server = tuple[int, int]  # port and pid


async def yardstick(server: Server, players: int, seconds: float) -> Run:
    """Measure a baseline with one small reply under the same load as the metagame."""
    wires = [await connect(server[0]) for _ in range(players)]
    ask = request("GET", "/svc-status")

    def operation(wire: Connection) -> Callable[[], Awaitable[bool]]:
        async def send() -> bool:
            status, _ = await wire.send(ask)
            return status == 200

        return send

    run = await measure([operation(wire) for wire in wires], (server[1],), seconds)
    for wire in wires:
        wire.close()
    return run


async def bare_writes(name: str, server: Server, players: int, seconds: float) -> Run:
    """Send the same bodies as ``scenario`` to a server that only stores them."""
    cast = [Player(server[0], random.Random(n)) for n in range(players)]
    for player in cast:
        await player.sit_down()
    run = await measure([player.operation(name) for player in cast], (server[1],), seconds)
    for player in cast:
        player.leave()
    return run


async def scenario(
    name: str, server: Server, players: int, seconds: float, keys: Iterator[str] | None = None
) -> Run:
    """Run one scenario against the metagame, then read back all acknowledged data."""
    cast = [Player(server[0], random.Random(n)) for n in range(players)]
    for player in cast:
        await player.arrive("" if keys is None else next(keys), saves=name != STORM)
        if name == "character-read":
            await player.save()  # a realistic document, not an empty one
    if name == CROWD:
        run = await crowd(cast, server[1], seconds)
    elif name == STORM:
        crowd_of_logins = [Player(server[0], random.Random(n)) for n in range(LOGINS)]
        for player in crowd_of_logins:
            await player.arrive(saves=False)
        run = await storm(crowd_of_logins, cast, server[1])
        for player in crowd_of_logins:
            player.leave()
    else:
        run = await measure([player.operation(name) for player in cast], (server[1],), seconds)
    run.missing = sum([await player.missing() for player in cast])
    for player in cast:
        player.leave()
    return run


def by_itself(name: str, folder: Path, seconds: float) -> Run:
    """Measure a baseline without HTTP in a separate process, in operations per second."""
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        command = [sys.executable, "-m", "bench.bare_writer", name, fresh, str(seconds)]
        done = subprocess.run(
            pinned(0, command), check=True, capture_output=True, text=True, timeout=120
        )
    return Run(float(done.stdout))


def main() -> None:
    """Measure and print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--scenarios", default="")
    options.add_argument("--players", type=int, default=0)
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--crowd", type=int, default=1500, help="players at their own pace")
    options.add_argument("--crowd-seconds", type=float, default=12.0)
    options.add_argument("--beside", type=Path, help="another checkout, to compare with")
    options.add_argument(
        "--database",
        choices=("sqlite", "postgresql"),
        default="sqlite",
        help="postgresql: what a request costs there, beside SQLite",
    )
    json_option(options)
    arguments = options.parse_args()
    both = arguments.database == "postgresql"
    arguments.players = arguments.players or (PLAYERS if both else 50)
    on_the_generators_core()
    names = (
        arguments.scenarios.split(",") if arguments.scenarios else ON_BOTH if both else SCENARIOS
    )
    with tempfile.TemporaryDirectory() as name:
        if both:
            raise SystemExit(compare(list(names), Path(name), arguments, scenario))
        measured = _beside if arguments.beside else _floors
        raise SystemExit(measured(list(names), Path(name), arguments))


def _floors(names: list[str], folder: Path, arguments: argparse.Namespace) -> int:
    runs = Runs()
    with ExitStack() as stack:
        small = stack.enter_context(bare_twisted(folder))
        asgi = stack.enter_context(bare_uvicorn(folder))
        store = stack.enter_context(bare_store(folder))
        game = stack.enter_context(metagame(folder))
        for _ in range(arguments.rounds):
            for name, server in ((TWISTED, small), (UVICORN, asgi)):
                runs.add(name, uvloop.run(yardstick(server, arguments.players, arguments.seconds)))
            for name in names:
                if name == BEATS_BY_WRK:
                    _add_by_wrk(runs, small, game, folder, arguments)
                    continue
                if name in alone:
                    runs.add(alone[name], by_itself(name, folder, min(arguments.seconds, 2.0)))
                if name in bare:
                    runs.add(
                        bare[name],
                        uvloop.run(bare_writes(name, store, arguments.players, arguments.seconds)),
                    )
                runs.add(
                    name, uvloop.run(scenario(name, game, arguments.players, arguments.seconds))
                )
        if MIX in names and arguments.crowd:
            runs.add(
                CROWD, uvloop.run(scenario(CROWD, game, arguments.crowd, arguments.crowd_seconds))
            )
    return finish(arguments.json, report(runs))


def _add_by_wrk(
    runs: Runs, bare: Server, game: Server, folder: Path, arguments: argparse.Namespace
) -> None:
    if not by_wrk.has_wrk():
        print("wrk is not installed (apt-get install wrk), so heartbeats are not measured with it")
        return
    script = uvloop.run(by_wrk.heartbeat_script(game[0], arguments.players, folder))
    runs.add(TWISTED_BY_WRK, by_wrk.yardstick(bare, arguments.players, arguments.seconds))
    runs.add(BEATS_BY_WRK, by_wrk.heartbeats(game, arguments.players, arguments.seconds, script))


def _beside(names: list[str], folder: Path, arguments: argparse.Namespace) -> int:
    """Compare the CPU time of requests with that of another checkout's metagame."""
    ours, theirs, checkout = Runs(), Runs(), arguments.beside.resolve()
    programs, own = checkout / ".venv/bin", folder / "beside"
    own.mkdir()
    with ExitStack() as stack:
        here = stack.enter_context(metagame(folder))
        there = stack.enter_context(metagame(own, programs=programs, PYTHONPATH=str(checkout)))
        for number in range(arguments.rounds):
            both = ((ours, here), (theirs, there))
            for name in [name for name in names if name != BEATS_BY_WRK]:
                for runs, server in both if number % 2 else reversed(both):
                    run = scenario(name, server, arguments.players, arguments.seconds)
                    runs.add(name, uvloop.run(run))
    return finish(arguments.json, report_beside(ours, theirs))


if __name__ == "__main__":
    main()
