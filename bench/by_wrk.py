"""Measures heartbeats, and twisted.web as their baseline, with the load generator wrk.

wrk is written in C. Both servers reply faster than a load generator in Python can send. With a
saturated generator, a server idles and wakes up for every single request, so the ratio would mostly
measure wake-ups.
"""

import random
import shutil
from pathlib import Path

from bench.meters import WrkRun, wrk
from bench.players import Player
from bench.runs import Run

CYCLE = """
local tokens = {{{tokens}}}
local asked, turn = {{}}, 0
function init()
    for i, token in ipairs(tokens) do
        asked[i] = wrk.format("POST", "/heartbeat", {{["Authorization"] = "Bearer " .. token,
            ["Content-Type"] = "application/json"}}, '{{"map":"Map_LoginMenu","state":"menu"}}')
    end
end
function request()
    turn = turn % #asked + 1
    return asked[turn]
end
"""


def has_wrk() -> bool:
    """Return whether the machine has wrk (``apt-get install wrk``)."""
    return shutil.which("wrk") is not None


def yardstick(server: tuple[int, int], connections: int, seconds: float) -> Run:
    """Measure a baseline that sends one small reply; ``server`` is the baseline's port and pid."""
    port, pid = server
    return _run(wrk(pid, f"http://127.0.0.1:{port}/svc-status", connections, seconds))


async def heartbeat_script(port: int, players: int, folder: Path) -> Path:
    """Register players, and write a script with which wrk sends their heartbeats in turn."""
    cast = [Player(port, random.Random(n)) for n in range(players)]
    for player in cast:
        await player.arrive()
        player.leave()
    script = folder / "heartbeats.lua"
    script.write_text(CYCLE.format(tokens=", ".join(f'"{player.token}"' for player in cast)))
    return script


def heartbeats(server: tuple[int, int], connections: int, seconds: float, script: Path) -> Run:
    """Send the heartbeats of ``heartbeat_script`` over the given number of connections."""
    port, pid = server
    return _run(wrk(pid, f"http://127.0.0.1:{port}/heartbeat", connections, seconds, script=script))


def _run(figures: WrkRun) -> Run:
    wrong = figures.refused + figures.failed
    return Run(figures.per_second, 0.0, figures.p99_ms, wrong, 0.0, 1e6 / figures.per_cpu)
