"""The startup costs of `svcctl --version`, a metagame and a demo run, and the memory use.

    python -m bench.start [--rounds 3] [--parts version,metagame,evening,memory]

Each part and its baseline are measured in every round, and the lowest figure counts. The parts are:

* ``svcctl --version``, in CPU seconds. The baseline is a bare Python interpreter.
* ``twistd svc-metagame`` on a host that `svcctl init` created, until it listens, in CPU seconds.
  The baseline is an interpreter that imports Twisted's reactor.
* ``svcctl demo --once`` in an empty folder, in wall-clock seconds. It creates a host, starts it,
  lets players play, and stops it, like ``make run ONCE=1`` in a clone that already has its
  environment. The baseline is again an interpreter that imports Twisted's reactor, in wall-clock
  seconds. The ports of the demo host must be free.
* The resident memory of such a metagame after twenty requests and two idle seconds, in megabytes.
  The baseline is an interpreter that has imported only a metagame's third-party libraries.

Prints a table. Each part has two limits: one for the figure itself, which a slow machine can miss,
and one for the ratio to the baseline, which a fast machine can miss. The exit status is 1 if a part
misses both.
"""

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from attrs import frozen

from bench.kept import Measurement, finish, json_option
from bench.meters import cpu_s
from bench.servers import free_port, running
from bench.table import FloorTable
from svcserver.ctl.host_creation import create_host
from svcserver.kernel.settings import with_env_file

PROGRAMS = Path(sys.executable).parent
LONGEST_S = 600
REQUESTS, IDLE_S = 20, 2.0  # before memory is looked at


# the library modules that a metagame with chat and metrics on SQLite imports
LIBRARIES = """
from twisted.scripts import twistd
from twisted.internet import reactor, endpoints, ssl
from twisted.application.service import IServiceMaker
from twisted.plugin import getPlugins
list(getPlugins(IServiceMaker))
import autobahn.twisted.websocket, autobahn.websocket.types, txaio
import cachetools, cattrs, httptools, jwt, klein, orjson, prometheus_client, treq
import cryptography.hazmat.primitives.asymmetric.rsa, cryptography.hazmat.primitives.serialization
import sqlalchemy, sqlalchemy.dialects.sqlite, sqlite3
print(next(line for line in open("/proc/self/status") if line.startswith("VmRSS:")))
"""


@frozen
class Cost:
    """The wall-clock seconds of a program, and its CPU seconds including all child processes."""

    wall_s: float
    cpu_s: float
    printed: str


@frozen
class Start:
    """One measured figure, with its baseline and its limits."""

    name: str
    measure: Callable[[Path], float]
    unit: str
    yardstick_name: str
    yardstick: Callable[[], float]
    at_most: float
    at_most_times: float


def ran(*command: str | Path) -> Cost:
    """Run a command; exit with its output if it fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LONGEST_S,
        check=False,
    )
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = done.stdout.decode(errors="replace")
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{printed[-2000:]}")
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Cost(wall_s, user + system, printed)


def version(folder: Path) -> float:
    """Return the CPU seconds of ``svcctl --version``."""
    return ran(PROGRAMS / "svcctl", "--version").cpu_s


@contextmanager
def metagame(folder: Path) -> Iterator[tuple[int, int]]:
    """Run a new host's metagame with chat and metrics; yield its port and pid."""
    create_host(folder / "host", "127.0.0.1", "owner")
    environ = with_env_file(str(folder / "host" / "metagame.env"), {})
    port = free_port()
    ports = {"PORT": port, "CHAT_PORT": free_port(), "METRICS_PORT": free_port()}
    environ |= {name: str(value) for name, value in ports.items()}
    command = [str(PROGRAMS / "twistd"), "--nodaemon", "--pidfile=", "svc-metagame"]
    with running(command, port, folder / "log", environ) as pid:
        yield port, pid


def start(folder: Path) -> float:
    """Return the CPU seconds that a metagame with an existing database needs until it listens."""
    with metagame(folder) as (_, pid):
        return cpu_s(pid)


def idle(folder: Path) -> float:
    """Return the resident megabytes of a metagame after a few requests."""
    with metagame(folder) as (port, pid):
        for _ in range(REQUESTS):
            with urlopen(f"http://127.0.0.1:{port}/svc/api/serverstatus", timeout=10) as page:
                page.read()
        time.sleep(IDLE_S)
        return resident(Path(f"/proc/{pid}/status").read_text())


def evening(folder: Path) -> float:
    """Return the wall-clock seconds of the first demo run in an empty folder."""
    return ran(PROGRAMS / "svcctl", "demo", "--once", "--config", folder / "demo-host").wall_s


def resident(output: str) -> float:
    """Return the megabytes in the line ``VmRSS:``, which include file-backed memory."""
    match = re.search(r"^VmRSS:\s*(\d+) kB", output, re.MULTILINE)
    if match is None:
        raise SystemExit("the output has no VmRSS line, so the memory use is unknown")
    return int(match[1]) / 1000


def bare() -> float:
    """Return the CPU seconds of an interpreter that does nothing."""
    return ran(sys.executable, "-c", "").cpu_s


def reactor() -> Cost:
    """Return the cost of an interpreter that imports Twisted's reactor."""
    return ran(sys.executable, "-c", "import twisted.internet.reactor")


def libraries() -> float:
    """Return the megabytes of an interpreter that has imported a metagame's libraries."""
    return resident(ran(sys.executable, "-c", LIBRARIES).printed)


REACTOR = "importing Twisted's reactor"
PARTS = {
    "version": Start(
        "svcctl --version", version, "s of CPU", "a bare interpreter", bare, 0.25, 12.0
    ),
    "metagame": Start(
        "a metagame until it listens", start, "s of CPU", REACTOR, lambda: reactor().cpu_s, 1.2, 6.0
    ),
    "evening": Start(
        "a demo evening", evening, "s by the clock", REACTOR, lambda: reactor().wall_s, 8.0, 40.0
    ),
    "memory": Start("an idle metagame", idle, "MB resident", "its libraries", libraries, 75.0, 1.3),
}


def measured(part: Start, rounds: int) -> tuple[float, float]:
    """Return the lowest figure of the part, and the lowest figure of its baseline."""
    figures, beside = [], []
    for _ in range(rounds):
        beside.append(part.yardstick())
        with tempfile.TemporaryDirectory() as name:
            figures.append(part.measure(Path(name)))
    return min(figures), min(beside)


def report(parts: Iterable[Start], rounds: int) -> list[Measurement]:
    """Measure, print the table, and return its rows."""
    table = FloorTable()
    for part in parts:
        figure, beside = measured(part, rounds)
        ratio, most = figure / beside, part.at_most_times
        limit = f"at most {most:g}, or {part.at_most:g} {part.unit}"
        good, yardstick = figure <= part.at_most or ratio <= most, part.yardstick_name
        more = {"less": True, "ratio": ratio, "yardstick": yardstick, "limit": limit, "good": good}
        table.add(part.name, figure, part.unit, **more)
    table.print_table()
    return table.rows


def main() -> None:
    """Measure the requested parts."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--parts", default=",".join(PARTS))
    json_option(options)
    arguments = options.parse_args()
    names = arguments.parts.split(",")
    unknown = set(names) - set(PARTS)
    if unknown or arguments.rounds < 1:
        options.error(f"--parts knows {', '.join(PARTS)}; --rounds is 1 or more")
    rows = report([PARTS[name] for name in names], arguments.rounds)
    raise SystemExit(finish(arguments.json, rows))


if __name__ == "__main__":
    main()
