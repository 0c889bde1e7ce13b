"""``make bench-chat``: the chat against Prosody and ejabberd, on one core each.

    python -m bench.chat [--seconds 4] [--rounds 3] [--logins 300] [--only ours]

Rounds alternate between contestants; figures are medians. Ours checks an RS256 token at each
login, the others compare a password. Memory, the stalled reader and the flood come last.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import uvloop
from attrs import define, field

from bench.chat_runs import Fan, Flood, fan, flood, idle, logins, percentile, stalled
from bench.chat_servers import PLAYERS, USUAL, Server, contestant, ours
from bench.servers import on_the_generators_core

PROGRAMS = {"prosody": "prosody", "ejabberd": "ejabberdctl"}
CALM_RATE = 30.0  # messages a second to a hundred
STALL_MIB, PING_MS, STATUS_TIMES = 4.0, 200.0, 3.0
BUSY = 0.9  # of the generator's core: it measured itself


@define
class Table:
    """Rows as they come, and whether any floor was missed."""

    rows: list[tuple[str, str, str, str, str]] = field(factory=list)
    missed: int = 0

    def least(self, name: str, figure: str, ratio: float, to: str, floor: float) -> None:
        """Ours is at least ``floor`` times the other's."""
        self._add(name, figure, f"{ratio:.2f} x {to}", f"at least {floor:g}", ratio >= floor)

    def most(self, name: str, figure: str, ratio: float, to: str, floor: float) -> None:
        """Ours is at most ``floor`` times the other's."""
        self._add(name, figure, f"{ratio:.2f} x {to}", f"at most {floor:g}", ratio <= floor)

    def below(self, name: str, figure: float, unit: str, most: float) -> None:
        """A figure that must stay under ``most``."""
        self._add(name, f"{figure:,.1f} {unit}", "-", f"under {most:g}", figure < most)

    def alone(self, name: str, figure: str, good: bool = True) -> None:
        """Something to know, or that spoils the run."""
        self._add(name, figure, "-", "-", good)

    def _add(self, name: str, figure: str, ratio: str, floor: str, good: bool) -> None:
        self.missed += not good
        self.rows.append((name, figure, ratio, floor, "ok" if good else "MISSED"))

    def show(self) -> None:
        """Print it."""
        print("| what | ours | ratio | floor | verdict |\n|---|---:|---:|---:|---|")
        for row in self.rows:
            print("| " + " | ".join(row) + " |")


@define
class Seen:
    """What was measured of one server, round after round."""

    logins: list[float] = field(factory=list)
    full: list[Fan] = field(factory=list)
    calm: list[Fan] = field(factory=list)
    idle_kib: float = 0.0

    def median(self, figure: Callable[[Seen], list[float]]) -> float:
        """Over the rounds."""
        return statistics.median(figure(self))


async def race(servers: list[Server], asked: argparse.Namespace) -> dict[str, Seen]:
    """What is measured side by side, round after round."""
    seen = {server.name: Seen() for server in servers}
    for n in range(asked.rounds):
        for server in servers:
            rate = await logins(server, n * asked.logins, asked.logins)
            seen[server.name].logins.append(rate)
        for server in servers:
            seen[server.name].full.append(await fan(server, asked.seconds))
        for server in servers:
            seen[server.name].calm.append(await fan(server, 2 * asked.seconds, CALM_RATE))
    return seen


def measure(
    names: list[str], folder: Path, asked: argparse.Namespace
) -> tuple[dict[str, Seen], tuple[bool, float], Flood]:
    """Everything; what asks how a server grows asks a fresh one."""
    with ExitStack() as stack:
        up = [stack.enter_context(contestant(name, folder)) for name in names]
        seen = uvloop.run(race(up, asked))
    for name in names:
        with contestant(name, folder) as server:
            seen[name].idle_kib = uvloop.run(idle(server))
    with contestant("ours", folder) as server:
        cut = uvloop.run(stalled(server))
    with ours(folder, USUAL) as server:
        return seen, cut, uvloop.run(flood(server, asked.rounds))


FIGURES: dict[str, tuple[str, Callable[[Seen], list[float]]]] = {
    "logins": ("{:,.0f} /s", lambda seen: seen.logins),
    "deliveries": ("{:,.0f} /s", lambda seen: [one.per_second for one in seen.full]),
    "CPU for 100,000 deliveries": ("{:.2f} s", lambda seen: [one.cpu_s for one in seen.full]),
    "p99 at 30 messages/s": ("{:.1f} ms", lambda seen: [one.p99_ms for one in seen.calm]),
    "an idle connection": ("{:.1f} KiB", lambda seen: [seen.idle_kib]),
}
LEAST = (
    ("logins", "prosody", 1.5),
    ("deliveries", "ejabberd", 2.0),
    ("deliveries", "prosody", 8.0),
)
MOST = (
    ("CPU for 100,000 deliveries", "ejabberd", 0.5),
    ("p99 at 30 messages/s", "ejabberd", 1.0),
    ("an idle connection", "prosody", 1.0),
)


def compare(table: Table, seen: dict[str, Seen]) -> None:
    """Rows of ours against each of the others, where they are here."""
    for rows, add in ((LEAST, table.least), (MOST, table.most)):
        for name, other, floor in rows:
            shape, figure = FIGURES[name]
            mine = seen["ours"].median(figure)
            if other in seen:
                theirs = seen[other].median(figure)
                add(name, shape.format(mine), mine / max(theirs, 1e-9), other, floor)
            else:
                table.alone(name, shape.format(mine))
    for server, one in seen.items():
        lost = sum(run.lost for run in [*one.full, *one.calm])
        if lost:
            table.alone(f"{server}: deliveries lost", str(lost), good=server != "ours")
        busy = max(run.generator for run in one.full)
        if busy > BUSY:
            table.alone(f"{server}: the generator was the limit", f"{busy:.0%} of its core")


def abuse(table: Table, cut: tuple[bool, float], seen: Flood) -> None:
    """What one client can do to the server."""
    table.alone("a reader that stalls", "cut" if cut[0] else "not cut", good=cut[0])
    table.below("a reader that stalls: growth", cut[1], "MiB", STALL_MIB)
    table.below("flood: others' slowest ping", max(seen.pings) / 1e6, "ms", PING_MS)
    calm, wild = percentile(seen.idle, 0.95), percentile(seen.status, 0.95)
    figure = f"{wild / 1e6:.1f} ms ({len(seen.status)} asked)"
    table.most("flood: p95 of GET /svc-status", figure, wild / calm, "idle", STATUS_TIMES)


def everyone(seen: dict[str, Seen]) -> None:
    """All figures of all servers."""
    print("| server | " + " | ".join(FIGURES) + " |\n|---" + "|---:" * len(FIGURES) + "|")
    for name, one in seen.items():
        said = [shape.format(one.median(figure)) for shape, figure in FIGURES.values()]
        print(f"| {name} | " + " | ".join(said) + " |")
    print()


def main() -> None:
    """Measure and print the tables; exit 1 when a floor is missed."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--logins", type=int, default=300)
    options.add_argument("--only", default="prosody,ejabberd", help="whom to compare with")
    asked = options.parse_args()
    if asked.rounds * asked.logins > PLAYERS:
        options.error(f"rounds times logins must be at most {PLAYERS}")
    wanted = [name for name in PROGRAMS if name in asked.only.split(",")]
    places = os.environ.get("PATH", os.defpath) + ":/usr/sbin"  # not in every user's path
    here = [name for name in wanted if shutil.which(PROGRAMS[name], path=places)]
    gone = [name for name in wanted if name not in here]
    if gone:
        print(f"not here: {', '.join(gone)}; install with: apt-get install {' '.join(gone)}")
    on_the_generators_core()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        seen, cut, wild = measure(["ours", *here], Path(name), asked)
    table = Table()
    compare(table, seen)
    abuse(table, cut, wild)
    everyone(seen)
    table.show()
    raise SystemExit(1 if table.missed else 0)


if __name__ == "__main__":
    main()
