"""The cost of a request in CPU instructions, which other load on the machine does not affect.

    python -m bench.instructions [--rows heartbeat,save,...] [--checkout DIR] [--requests 200]
                                 [--players 8] [--database URL] [--bare]

The metagame of ``DIR`` (default: this checkout; another needs its own ``.venv``) runs under
valgrind's callgrind (``apt-get install valgrind``), which counts every instruction of every thread
outside the kernel. After a warm-up, each row sends N requests ``PARTS`` times; the median count
divided by N is the cost of one request. The instructions of the process's periodic work are
measured beforehand, without requests, and subtracted. The number of writes per transaction
depends on the load; with one player, each transaction has one write. ``--bare`` measures
``twisted.web`` with a small reply instead. The output is a line of JSON per row. A row takes 5 to
20 seconds of CPU.
"""

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from attrs import frozen

from bench.client import Connection, connect, request
from bench.players import Player
from bench.servers import free_port, running
from svcserver.ctl.keys import new_signing_keys

ROWS = (
    *("status", "heartbeat", "login", "balance", "character-read", "save", "inventory"),
    *("party", "mix"),
)
WARM = 40  # uncounted operations of each row; for the mix, a whole session of each player
SESSION = 60  # about as many steps as a session of the mix has
START_S = 180.0
PARTS = 5
IDLE_S = 3.0


@frozen
class Counter:
    """The number of CPU instructions that a process has executed, as counted by callgrind."""

    pid: int
    folder: Path

    def switch_on(self) -> None:
        """Start to count.

        Counting is off at first, so that the process starts quickly.
        """
        self._run_command("instrumentation", "on")

    def take(self) -> int:
        """Return the number of instructions since the last call of ``take``."""
        before = set(self.folder.glob("out*"))
        self._run_command("dump")
        [fresh] = set(self.folder.glob("out*")) - before
        count = re.search(r"^(?:totals|summary): (\d+)", fresh.read_text(), re.MULTILINE)
        return int(count[1]) if count else 0

    def _run_command(self, *words: str) -> None:
        command = ["vgdb", f"--pid={self.pid}", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


@contextmanager
def counted(
    python: list[str], environ: dict[str, str], port: int, folder: Path
) -> Iterator[Counter]:
    """Run a Python program, which listens on ``port``, under callgrind."""
    callgrind = [
        *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
        f"--callgrind-out-file={folder}/out",
    ]
    log, environ = folder / "counted.log", {"PYTHONHASHSEED": "0", **environ}
    with running([*callgrind, *python], port, log, environ, start_s=START_S) as pid:
        yield Counter(pid, folder)


@contextmanager
def metagame(checkout: Path, folder: Path, url: str) -> Iterator[tuple[int, Counter]]:
    """Run the metagame of ``checkout``; yield its port and its counter."""
    port, keys = free_port(), new_signing_keys()
    environ = {
        "PORT": str(port),
        "AUTH_MODE": "APIKEY",
        "REGISTRATION_MODE": "OPEN",
        "NODE_ENV": "production",
        "DATABASE_URL": url or f"sqlite:///{folder}/counted.db",
        "AUTH_SIGNING_PRIVKEY_B64": keys.private,
        "AUTH_SIGNING_PUBKEY_B64": keys.public,
        "PYTHONPATH": str(checkout),
    }
    scripts = Path(sys.executable).parent if checkout == Path.cwd() else checkout / ".venv/bin"
    twistd = [str(scripts / "twistd"), "--nodaemon", "--pidfile=", "svc-metagame"]
    with counted([str(scripts / "python"), *twistd], environ, port, folder) as counter:
        yield port, counter


async def send(cast: list[Player], row: str, count: int) -> None:
    """Send ``count`` operations in all; each player waits for a reply before the next operation."""
    left = iter(range(count))

    async def play(player: Player) -> None:
        operation = player.operation(row)
        for _ in left:
            assert await operation(), f"{row} failed"

    await asyncio.gather(*(play(player) for player in cast))


async def count(port: int, counter: Counter, rows: list[str], players: int, requests: int) -> None:
    """Print the cost of each row in instructions."""
    cast = [Player(port, random.Random(n)) for n in range(players)]
    for player in cast:
        await player.arrive()
        await player.save()  # a realistic document
    counter.switch_on()
    for row in rows:
        await send(cast, row, SESSION * players if row == "mix" else WARM)
        await parts(row, counter, requests, partial(send, cast, row))


async def bare(port: int, counter: Counter, players: int, requests: int) -> None:
    """Print the cost of a small reply of twisted.web."""
    wires = [await connect(port) for _ in range(players)]
    ask = request("GET", "/svc-status")

    async def send_bare(count: int) -> None:
        left = iter(range(count))

        async def play(wire: Connection) -> None:
            for _ in left:
                status, _body = await wire.send(ask)
                assert status == 200

        await asyncio.gather(*(play(wire) for wire in wires))

    counter.switch_on()
    await send_bare(WARM)
    await parts("twisted.web", counter, requests, send_bare)


async def parts(
    row: str, counter: Counter, requests: int, play: Callable[[int], Awaitable[None]]
) -> None:
    """Print a request's median cost over ``PARTS`` measurements, and the cost in each of them."""
    counter.take()
    await asyncio.sleep(IDLE_S)
    by_the_clock = counter.take() / IDLE_S
    costs = []
    for _ in range(PARTS):
        began = time.monotonic()
        await play(requests)
        lasted = time.monotonic() - began
        costs.append(round((counter.take() - by_the_clock * lasted) / requests))
    counts = {"row": row, "instructions": statistics.median(costs), "parts": costs}
    print(json.dumps(counts), flush=True)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", default=",".join(ROWS))
    options.add_argument("--checkout", type=Path, default=Path.cwd())
    options.add_argument("--requests", type=int, default=200)
    options.add_argument("--players", type=int, default=8)
    options.add_argument("--database", default="", help="a URL; default: a fresh SQLite file")
    options.add_argument("--bare", action="store_true", help="twisted.web instead")
    arguments = options.parse_args()
    if not shutil.which("valgrind"):
        raise SystemExit("valgrind is not installed; install it with: apt-get install valgrind")
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as name:
        folder, sent = Path(name), (arguments.players, arguments.requests)
        if arguments.bare:
            port = free_port()
            program = ["-m", "bench.bare_twisted", str(port), str(folder / "requests.log")]
            with counted([sys.executable, *program], {}, port, folder) as counter:
                asyncio.run(bare(port, counter, *sent))
            return
        with metagame(arguments.checkout.resolve(), folder, arguments.database) as (port, counter):
            asyncio.run(count(port, counter, arguments.rows.split(","), *sent))


if __name__ == "__main__":
    main()
