"""What a request costs in processor instructions, which other load on the machine does not move.

    python -m bench.instructions [--rows heartbeat,save,...] [--checkout DIR] [--requests 200]
                                 [--players 8] [--database URL]

Runs the metagame of ``DIR`` (default: this checkout; another needs its own ``.venv``) under
valgrind's callgrind (``apt-get install valgrind``), which counts every instruction of every
thread. After a warm-up each row sends N requests, then 2 N; the difference by N is the cost of
one, so that what happens by the clock cancels out. Prints a line of JSON for each row.
"""

from __future__ import annotations

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from bench.players import Player
from bench.servers import free_port, running
from svcserver.ctl.keys import new_signing_keys

ROWS = ("status", "heartbeat", "login", "balance", "character-read", "save", "inventory")
ROWS += ("party", "mix")
WARM = 40  # operations of each row before any is counted; the mix a whole session of each player
SESSION = 60  # about as many steps as a session of the mix has
START_S = 180.0
PARTS = 5


@frozen
class Counter:
    """The instructions that a process under callgrind has executed since it was last asked."""

    pid: int
    folder: Path

    def switch_on(self) -> None:
        """Begin to count; until now nothing was, so that the start is quick."""
        self._say("instrumentation", "on")

    def take(self) -> int:
        """How many since the last time."""
        before = set(self.folder.glob("out*"))
        self._say("dump")
        [fresh] = set(self.folder.glob("out*")) - before
        found = re.search(r"^(?:totals|summary): (\d+)", fresh.read_text(), re.MULTILINE)
        return int(found[1]) if found else 0

    def _say(self, *words: str) -> None:
        command = ["vgdb", f"--pid={self.pid}", *words]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


@contextmanager
def counted(checkout: Path, folder: Path, url: str) -> Iterator[tuple[int, Counter]]:
    """The port of that checkout's metagame, and its counter."""
    port, keys = free_port(), new_signing_keys()
    environ = {
        "PORT": str(port),
        "AUTH_MODE": "APIKEY",
        "REGISTRATION_MODE": "OPEN",
        "NODE_ENV": "production",
        "DATABASE_URL": url or f"sqlite:///{folder}/counted.db",
        "AUTH_SIGNING_PRIVKEY_B64": keys.private,
        "AUTH_SIGNING_PUBKEY_B64": keys.public,
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": str(checkout),
    }
    scripts = Path(sys.executable).parent if checkout == Path.cwd() else checkout / ".venv/bin"
    callgrind = [
        *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
        f"--callgrind-out-file={folder}/out",
    ]
    twistd = [str(scripts / "twistd"), "--nodaemon", "--pidfile=", "svc-metagame"]
    command = [*callgrind, str(scripts / "python"), *twistd]
    with running(command, port, folder / "counted.log", environ, start_s=START_S) as pid:
        yield port, Counter(pid, folder)


async def send(cast: list[Player], row: str, count: int) -> None:
    """So many operations in all, each player's one after the other."""
    left = iter(range(count))

    async def play(player: Player) -> None:
        operation = player.operation(row)
        for _ in left:
            assert await operation(), f"{row} failed"

    await asyncio.gather(*(play(player) for player in cast))


async def count(port: int, counter: Counter, rows: list[str], players: int, requests: int) -> None:
    """Print what each row costs."""
    cast = [Player(port, random.Random(n)) for n in range(players)]
    for player in cast:
        await player.arrive()
        await player.save()  # a document as real ones are
    counter.switch_on()
    for row in rows:
        await send(cast, row, SESSION * players if row == "mix" else WARM)
        counter.take()
        costs = []
        for _ in range(PARTS):
            await send(cast, row, requests)
            costs.append(counter.take() / requests)
        cost = statistics.median(costs)
        said = {"row": row, "instructions": round(cost), "parts": [round(one) for one in costs]}
        print(json.dumps(said), flush=True)


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", default=",".join(ROWS))
    options.add_argument("--checkout", type=Path, default=Path.cwd())
    options.add_argument("--requests", type=int, default=200)
    options.add_argument("--players", type=int, default=8)
    options.add_argument("--database", default="", help="a URL; default: a fresh SQLite file")
    asked = options.parse_args()
    if not shutil.which("valgrind"):
        raise SystemExit("apt-get install valgrind")
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as name:
        checkout, folder = asked.checkout.resolve(), Path(name)
        with counted(checkout, folder, asked.database) as (port, counter):
            rows = asked.rows.split(",")
            asyncio.run(count(port, counter, rows, asked.players, asked.requests))


if __name__ == "__main__":
    main()
