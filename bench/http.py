"""``make bench``: the metagame's requests a second on one core, and ratios to the yardsticks.

    python -m bench.http [--scenarios status,login,...] [--players 50] [--seconds 3] [--rounds 5]
                         [--accounts 50000] [--crowd 1500] [--database postgresql]

Rounds alternate between contestants; a ratio is the median of the rounds' own ratios, so that
what else the machine does hits both sides. The generator runs on another core; where it uses
more than 0.9 of that core the row says so, for then it measured itself. Ends with 1 when a
floor is missed, a request fails, or anything acknowledged is not there afterwards.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import uvloop

from bench import by_wrk
from bench.client import Connection, connect, request
from bench.players import Player
from bench.population import populate
from bench.postgres import PLAYERS, compare
from bench.postgres import SCENARIOS as ON_BOTH
from bench.runs import Run, Runs, crowd, measure
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
    TWISTED,
    TWISTED_BY_WRK,
    UVICORN,
    alone,
    bare,
    report,
    report_change,
)

SCENARIOS = (*FLOORS, MIX)
Server = tuple[int, int]  # port and pid


async def yardstick(server: Server, players: int, seconds: float) -> Run:
    """One small answer, under the same load."""
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
    """The same bodies as in ``scenario``, to a server that only stores them."""
    cast = [Player(server[0], random.Random(n)) for n in range(players)]
    for player in cast:
        await player.sit_down()
    run = await measure([player.operation(name) for player in cast], (server[1],), seconds)
    for player in cast:
        player.leave()
    return run


async def scenario(name: str, server: Server, players: int, seconds: float) -> Run:
    """The metagame under one scenario, with everything acknowledged read back."""
    cast = [Player(server[0], random.Random(n)) for n in range(players)]
    for player in cast:
        await player.arrive()
        if name == "character-read":
            await player.save()  # a realistic document, not an empty one
    if name == CROWD:
        run = await crowd(cast, server[1], seconds)
    else:
        run = await measure([player.operation(name) for player in cast], (server[1],), seconds)
    run.lost = sum([await player.lost() for player in cast])
    for player in cast:
        player.leave()
    return run


def by_itself(name: str, folder: Path, seconds: float) -> Run:
    """A yardstick without HTTP: how many a second."""
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        command = [sys.executable, "-m", "bench.bare_writer", name, fresh, str(seconds)]
        said = subprocess.run(
            pinned(0, command), check=True, capture_output=True, text=True, timeout=120
        )
    return Run(float(said.stdout))


def main() -> None:
    """Measure and print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--scenarios", default="")
    options.add_argument("--players", type=int, default=0)
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--accounts", type=int, default=0, help="compare with so many accounts")
    options.add_argument("--crowd", type=int, default=1500, help="players at their own pace")
    options.add_argument(
        "--database",
        choices=("sqlite", "postgresql"),
        default="sqlite",
        help="postgresql: what a request costs there, beside SQLite",
    )
    asked = options.parse_args()
    both = asked.database == "postgresql"
    asked.players = asked.players or (PLAYERS if both else 50)
    on_the_generators_core()
    names = asked.scenarios.split(",") if asked.scenarios else ON_BOTH if both else SCENARIOS
    with tempfile.TemporaryDirectory() as name:
        if both:
            raise SystemExit(compare(list(names), Path(name), asked, scenario))
        measured = _change if asked.accounts else _floors
        raise SystemExit(measured(list(names), Path(name), asked))


def _floors(names: list[str], folder: Path, asked: argparse.Namespace) -> int:
    runs = Runs()
    with ExitStack() as stack:
        small = stack.enter_context(bare_twisted(folder))
        other = stack.enter_context(bare_uvicorn(folder))
        store = stack.enter_context(bare_store(folder))
        game = stack.enter_context(metagame(folder))
        for _ in range(asked.rounds):
            for name, server in ((TWISTED, small), (UVICORN, other)):
                runs.add(name, uvloop.run(yardstick(server, asked.players, asked.seconds)))
            for name in names:
                if name == BEATS_BY_WRK:
                    _add_by_wrk(runs, small, game, folder, asked)
                    continue
                if name in alone:
                    runs.add(alone[name], by_itself(name, folder, min(asked.seconds, 2.0)))
                if name in bare:
                    runs.add(
                        bare[name],
                        uvloop.run(bare_writes(name, store, asked.players, asked.seconds)),
                    )
                runs.add(name, uvloop.run(scenario(name, game, asked.players, asked.seconds)))
        if MIX in names and asked.crowd:
            runs.add(CROWD, uvloop.run(scenario(CROWD, game, asked.crowd, 4 * asked.seconds)))
    return report(runs)


def _add_by_wrk(
    runs: Runs, bare: Server, game: Server, folder: Path, asked: argparse.Namespace
) -> None:
    if not by_wrk.there_is_one():
        print("no wrk here (apt-get install wrk): heartbeats are not measured by it")
        return
    script = uvloop.run(by_wrk.heartbeat_script(game[0], asked.players, folder))
    runs.add(TWISTED_BY_WRK, by_wrk.yardstick(bare, asked.players, asked.seconds))
    runs.add(BEATS_BY_WRK, by_wrk.heartbeats(game, asked.players, asked.seconds, script))


def _change(names: list[str], folder: Path, asked: argparse.Namespace) -> int:
    """The same scenarios on a fresh database and on one that has been in use."""
    populate(folder / "used.db", asked.accounts)
    fresh, used = Runs(), Runs()
    with ExitStack() as stack:
        few = stack.enter_context(metagame(folder))
        many = stack.enter_context(metagame(folder, "used"))
        for number in range(asked.rounds):
            both = ((fresh, few), (used, many))
            for name in [one for one in names if one != BEATS_BY_WRK]:
                for runs, server in both if number % 2 else reversed(both):
                    runs.add(name, uvloop.run(scenario(name, server, asked.players, asked.seconds)))
    return report_change(fresh, used, asked.accounts)


if __name__ == "__main__":
    main()
