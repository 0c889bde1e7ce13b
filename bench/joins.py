"""Joins per second through metagame and deploy server, with a game server that does nothing.

    python -m bench.joins [--seconds 5] [--groups 8]

Each group of four players joins a hunt, polls until it gets the game server's address, and then
joins the next hunt. The output is joins per second, started hunts per second, and the time from the
group's last join until the address is known.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop
from attrs import define, field

from bench.client import Connection, connect, request
from bench.players import Player
from bench.servers import free_port, metagame, on_the_generators_core, running
from svcserver.players import requests

HUNTS = (
    "CR19_PlayerHunt_Escalation_Randall_Easy",
    "CombatDemo_Easy",
    "CombatDemo_Hard",
    "CombatDemo_Hard2",
)
GROUP = 4
PORTS = (30_000, 31_999)
NOTHING = "#!/bin/sh\nexec sleep 600\n"


@contextmanager
def deploy(folder: Path) -> Iterator[int]:
    """Run a deploy server whose game servers do nothing; yield its port."""
    port, program = free_port(), folder / "nothing"
    program.write_text(NOTHING)
    program.chmod(0o700)
    environ = {
        "PORT": str(port),
        "MY_IP": "127.0.0.1",
        "PORT_RANGE_BEGIN": str(PORTS[0]),
        "PORT_RANGE_END": str(PORTS[1]),
        "GAMESERVER_BINARY_PATH": str(program),
        "GAMESERVER_MEMORY_GUARD": "0",
        "CITY_MAP": "/Game/Maps/city/bench_01_persistent",
        "METAGAME_API_KEY": "bench",
        "NODE_ENV": "production",
    }
    twistd = str(Path(sys.executable).parent / "twistd")
    command = [twistd, "--nodaemon", "--pidfile=", "svc-deploy"]
    with running(command, port, folder / "deploy.log", environ):
        yield port


@define
class Group:
    """A group of four players who hunt together repeatedly."""

    hunt: str
    players: list[Player]
    wires: list[Connection]
    waits_s: list[float] = field(factory=list)
    joins: int = 0

    async def hunt_once(self) -> None:
        """Join, and poll until every player has the address."""
        for player, wire in zip(self.players, self.wires, strict=True):
            reply = request(*requests.join("ISLAND", self.hunt), token=player.token)
            status, answer = await wire.send(reply)
            assert status == 200, answer
        began = time.perf_counter()
        self.joins += GROUP
        await asyncio.gather(*(self._wait_for_hunt(n) for n in range(GROUP)))
        self.waits_s.append(time.perf_counter() - began)

    async def _wait_for_hunt(self, number: int) -> None:
        ask = request("GET", "/candidate/status", token=self.players[number].token)
        while True:
            _, answer = await self.wires[number].send(ask)
            state = json.loads(answer)["status"]
            if state == "IN_PROGRESS":
                return
            assert state == "MATCHING", answer
            await asyncio.sleep(0.005)


async def measure(port: int, groups: int, seconds: float) -> list[Group]:
    """Let the groups hunt for a while; each group has a hunt that no other group joins."""
    cast = []
    for number in range(min(groups, len(HUNTS))):
        players = [Player(port, random.Random(number * GROUP + n)) for n in range(GROUP)]
        for player in players:
            await player.arrive()
        wires = [await connect(port) for _ in players]
        cast.append(Group(HUNTS[number], players, wires))
    deadline = time.perf_counter() + seconds

    async def evening(group: Group) -> None:
        while time.perf_counter() < deadline:
            await group.hunt_once()

    await asyncio.gather(*(evening(group) for group in cast))
    return cast


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=5.0)
    options.add_argument("--groups", type=int, default=len(HUNTS))
    arguments = options.parse_args()
    on_the_generators_core()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        port = stack.enter_context(deploy(folder))
        more = {"MATCHMAKING_MODE": "DEPLOYSERVER", "DEPLOYSERVER_URL": f"127.0.0.1:{port}"}
        # the players of this bench start hunts without a pause
        more["MATCHMAKING_LAUNCH_COOLDOWN_S"] = "0"
        game, _ = stack.enter_context(metagame(folder, **more))
        groups = uvloop.run(measure(game, arguments.groups, arguments.seconds))
    waits = sorted(entry for group in groups for entry in group.waits_s)
    joins = sum(group.joins for group in groups)
    print(f"joins      {joins / arguments.seconds:,.0f}/s")
    print(f"hunts      {len(waits) / arguments.seconds:,.0f}/s started")
    print(f"to address p50 {1000 * statistics.median(waits):.1f} ms, ", end="")
    print(f"p99 {1000 * waits[int(len(waits) * 0.99) - 1]:.1f} ms, last {1000 * waits[-1]:.1f} ms")


if __name__ == "__main__":
    main()
