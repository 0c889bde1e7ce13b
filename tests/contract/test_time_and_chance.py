"""Time and chance come from ``kernel/system.py`` alone, or a simulation could not own them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svcserver

PACKAGE = Path(svcserver.__file__).parent
THE_MACHINES = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep", "localtime"},
    "random": None,
    "secrets": None,
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom", "getrandom"},
    "datetime": {"now", "utcnow", "today"},
    "date": {"today"},
}
# programs that a simulated host has none of, or has its own in place of
ELSEWHERE = (
    "ctl/",
    "stack/",
    "kernel/system.py",
    "deploy/simulator.py",  # a game server; sim/gameservers.py stands for it
    "deploy/orphans.py",  # waits for the system's processes
    "db/transaction.py",  # PostgreSQL's retries wait in threads
    "web/logwriter.py",  # a thread that writes the log
)
ALLOWED = {
    "deploy/hunts.py": {"random.Random"},  # a type
    "edge/spread.py": {"random.Random"},
    "edge/certificate.py": {"datetime.now"},  # a certificate's days
    "gateway/service.py": {"datetime.now"},
    "sim/clock.py": {"random.Random"},  # from the seed
    "sim/faults.py": {"random.Random"},
    "sim/player.py": {"random.Random"},
    "sim/players.py": {"random.Random"},
    "sim/belongings.py": {"random.Random"},
    "sim/social.py": {"random.Random"},
    "sim/talking.py": {"random.Random"},
    "sim/run.py": {"random.Random", "time.process_time"},
    "sim/script.py": {"random.Random"},
    "sim/shrink.py": {"time.monotonic"},
    "sim/wiring.py": {"random.Random"},
}


def asked(tree: ast.AST) -> Iterator[str]:
    """What is taken from the machine, as ``module.name``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names = THE_MACHINES.get(node.value.id, set())
            if names is None or node.attr in names:
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module in THE_MACHINES:
            names = THE_MACHINES[node.module]
            yield from (
                f"{node.module}.{one.name}"
                for one in node.names
                if names is None or one.name in names
            )


class SourcesTests(SynchronousTestCase):
    def test_nothing_asks_the_machine_for_time_or_chance(self) -> None:
        found = set()
        for file in sorted(PACKAGE.rglob("*.py")):
            place = str(file.relative_to(PACKAGE))
            if not place.startswith(ELSEWHERE):
                found |= {
                    f"{place}: {one}"
                    for one in asked(ast.parse(file.read_text("utf-8")))
                    if one not in ALLOWED.get(place, set())
                }
        self.assertEqual(found, set(), "take it from svcserver.kernel.system")

    def test_it_finds_what_it_looks_for(self) -> None:
        said = "import time\nfrom uuid import uuid4\nx = time.time()\ny = secrets.choice('a')\n"
        self.assertEqual(
            sorted(asked(ast.parse(said))), ["secrets.choice", "time.time", "uuid.uuid4"]
        )
