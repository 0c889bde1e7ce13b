"""How long a start takes: `svcctl --version`, a metagame until it listens, and a demo evening.

    python -m bench.start [--rounds 3] [--parts version,metagame,evening]

Each is measured in turn with a yardstick of the same round, and the quickest of all rounds counts:

* ``svcctl --version``, in seconds of processor time; a bare interpreter beside it;
* ``twistd svc-metagame`` on a host that `svcctl init` made, until it listens, in seconds of
  processor time; an interpreter that imports Twisted's reactor beside it;
* ``svcctl demo --once`` in an empty folder, which is what ``make run ONCE=1`` does in a clone whose
  environment is there: makes a host, starts it, lives an evening, stops it; by the clock; the same
  yardstick beside it, by the clock, too. It wants the demo host's ports.

Prints a table, and ends with 1 when a part missed its floor: both the seconds, which a slow machine
misses, and as many times the yardstick, which a fast one might.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from attrs import frozen

from bench.meters import cpu_s
from bench.servers import free_port, running
from svcserver.ctl.host_creation import create_host
from svcserver.kernel.settings import with_env_file

PROGRAMS = Path(sys.executable).parent
LONGEST_S = 600


@frozen
class Cost:
    """What running something took: seconds of the clock, and of processors with its children."""

    wall_s: float
    cpu_s: float


@frozen
class Part:
    """One kind of start, its yardstick, and what it may take."""

    name: str
    measure: Callable[[Path], float]
    yardstick_name: str
    yardstick: Callable[[], Cost]
    at_most_s: float
    at_most_times: float
    by_clock: bool = False


def ran(*command: str | Path) -> Cost:
    """Run a command that must go well."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LONGEST_S,
        check=False,
    )
    wall_s, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command} failed:\n{done.stdout.decode(errors='replace')[-2000:]}")
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    return Cost(wall_s, user + system)


def version(folder: Path) -> float:
    """Processor seconds of ``svcctl --version``."""
    return ran(PROGRAMS / "svcctl", "--version").cpu_s


def metagame(folder: Path) -> float:
    """Processor seconds of a metagame until it listens, chat and figures on, its database made."""
    create_host(folder / "host", "127.0.0.1", "owner")
    environ = with_env_file(str(folder / "host" / "metagame.env"), {})
    port = free_port()
    ports = {"PORT": port, "CHAT_PORT": free_port(), "METRICS_PORT": free_port()}
    environ |= {name: str(value) for name, value in ports.items()}
    command = [str(PROGRAMS / "twistd"), "--nodaemon", "--pidfile=", "svc-metagame"]
    with running(command, port, folder / "log", environ) as pid:
        return cpu_s(pid)


def evening(folder: Path) -> float:
    """Seconds by the clock of a demo host's first evening."""
    return ran(PROGRAMS / "svcctl", "demo", "--once", "--config", folder / "demo-host").wall_s


def bare() -> Cost:
    """An interpreter that does nothing."""
    return ran(sys.executable, "-c", "")


def reactor() -> Cost:
    """An interpreter that imports Twisted's reactor."""
    return ran(sys.executable, "-c", "import twisted.internet.reactor")


BARE, REACTOR = "a bare interpreter", "importing Twisted's reactor"
PARTS = {
    "version": Part("svcctl --version", version, BARE, bare, 0.25, 12.0),
    "metagame": Part("a metagame that listens", metagame, REACTOR, reactor, 1.2, 6.0),
    "evening": Part("a demo evening", evening, REACTOR, reactor, 8.0, 40.0, by_clock=True),
}


def measured(part: Part, rounds: int) -> tuple[float, float]:
    """The least that it took, and the least that its yardstick took."""
    took, beside = [], []
    for _ in range(rounds):
        cost = part.yardstick()
        beside.append(cost.wall_s if part.by_clock else cost.cpu_s)
        with tempfile.TemporaryDirectory() as name:
            took.append(part.measure(Path(name)))
    return min(took), min(beside)


def report(parts: Iterable[Part], rounds: int) -> int:
    """Measure and print the table; 1 when a floor is missed."""
    failed = False
    print("| start | seconds | of | at most | yardstick | times | at most |")
    print("|---|---:|---|---:|---|---:|---:|")
    for part in parts:
        took, beside = measured(part, rounds)
        times = took / beside
        missed = took > part.at_most_s and times > part.at_most_times
        failed |= missed
        print(
            f"| {part.name} | {took:.2f}{' MISSED' if missed else ''} |"
            f" {'the clock' if part.by_clock else 'CPU'} | {part.at_most_s} |"
            f" {part.yardstick_name}, {beside:.3f} s | {times:.1f} | {part.at_most_times:.0f} |",
            flush=True,
        )
    return int(failed)


def main() -> None:
    """Measure what is asked for."""
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--parts", default=",".join(PARTS))
    asked = options.parse_args()
    names = asked.parts.split(",")
    unknown = set(names) - set(PARTS)
    if unknown or asked.rounds < 1:
        options.error(f"--parts knows {', '.join(PARTS)}; --rounds is 1 or more")
    raise SystemExit(report([PARTS[name] for name in names], asked.rounds))


if __name__ == "__main__":
    main()
