"""Time and chance come from ``kernel/system.py`` alone, or a simulation could not own them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

import svcserver
from tests.support.sources import nodes

PACKAGE = Path(svcserver.__file__).parent
# what asks the machine, by module; None: everything of it
THE_MACHINES: dict[str, set[str] | None] = {
    "time": {
        *("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"),
        *("process_time", "process_time_ns", "thread_time", "thread_time_ns", "clock_gettime"),
        *("clock_gettime_ns", "sleep", "localtime", "gmtime", "ctime", "asctime", "strftime"),
    },
    "random": None,
    "secrets": None,
    "uuid": {"uuid1", "uuid4", "uuid6", "uuid7", "uuid8", "getnode"},
    "os": {"urandom", "getrandom", "times"},
    "datetime.datetime": {"now", "utcnow", "today"},
    "datetime.date": {"today"},
    "twisted.internet": {"reactor"},
    "twisted.python.runtime": {"seconds"},
    "sqlalchemy.func": {"now", "random", "current_timestamp", "strftime", "julianday", "unixepoch"},
}
# the database's own, in the text of a statement
IN_SQL = re.compile(
    r"\b(CURRENT_(TIMESTAMP|TIME|DATE)\b|(NOW|RANDOM|RANDOMBLOB|CLOCK_TIMESTAMP|GEN_RANDOM_UUID)\()"
    r"|\b(DATETIME|STRFTIME|UNIXEPOCH|JULIANDAY)\([^)]*'now'",
    re.IGNORECASE,
)
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
    "kernel/monotonic.py": {"twisted.internet.reactor"},  # of a service's own process
    "deploy/hunts.py": {"random.Random"},  # a type
    "edge/spread.py": {"random.Random"},
    "edge/certificate.py": {"datetime.datetime.now"},  # a certificate's days
    "gateway/service.py": {"datetime.datetime.now"},
    "sim/clock.py": {"random.Random"},  # from the seed
    "sim/faults.py": {"random.Random"},
    "sim/player.py": {"random.Random"},
    "sim/players.py": {"random.Random"},
    "sim/belongings.py": {"random.Random"},
    "sim/gear.py": {"random.Random"},
    "sim/glances.py": {"random.Random"},
    "sim/guilds.py": {"random.Random"},
    "sim/hunting.py": {"random.Random"},
    "sim/links.py": {"random.Random"},
    "sim/downloads.py": {"random.Random"},
    "sim/social.py": {"random.Random"},
    "sim/chat.py": {"random.Random"},
    "sim/rare.py": {"random.Random"},
    "sim/run.py": {"random.Random", "time.process_time"},
    "sim/script.py": {"random.Random"},
    "sim/shrink.py": {"time.monotonic"},
    "sim/wiring.py": {"random.Random"},
}


def asked(source: str) -> Iterator[str]:
    """What is taken from the machine, as ``module.name``, under whatever names it was imported."""
    names = dict(imported(source))
    for node in nodes(source):
        if isinstance(node, ast.Attribute):
            yield from taken(f"{spelled(node.value, names)}.{node.attr}")
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for one in node.names:
                yield from taken(f"{node.module}.{one.name}")
        elif isinstance(node, ast.Call) and spelled(node.func, names).endswith("import_module"):
            yield from ("import_module" for one in node.args if constant(one) in THE_MACHINES)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (f"SQL: {one[0]}" for one in IN_SQL.finditer(node.value))


def imported(source: str) -> Iterator[tuple[str, str]]:
    """What each name of the module stands for."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.asname or one.name.partition(".")[0], one.name
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


def spelled(node: ast.AST, names: dict[str, str]) -> str:
    """``datetime.datetime`` for ``dt`` after ``from datetime import datetime as dt``."""
    if isinstance(node, ast.Attribute):
        return f"{spelled(node.value, names)}.{node.attr}"
    return names.get(node.id, "") if isinstance(node, ast.Name) else ""


def constant(node: ast.AST) -> object:
    """The text that is written there."""
    return node.value if isinstance(node, ast.Constant) else None


def taken(name: str) -> Iterator[str]:
    """The name, where it asks the machine."""
    module, _, last = name.rpartition(".")
    if module in THE_MACHINES:
        wanted = THE_MACHINES[module]
        if wanted is None or last in wanted:
            yield name


class SourcesTests(SynchronousTestCase):
    def test_nothing_asks_the_machine_for_time_or_chance(self) -> None:
        found = set()
        for file in sorted(PACKAGE.rglob("*.py")):
            place = str(file.relative_to(PACKAGE))
            if not place.startswith(ELSEWHERE):
                found |= {
                    f"{place}: {one}"
                    for one in asked(file.read_text("utf-8"))
                    if one not in ALLOWED.get(place, set())
                }
        self.assertEqual(found, set(), "take it from svcserver.kernel.system")

    def test_it_finds_what_it_looks_for(self) -> None:
        for said, found in (
            ("import time\nx = time.time()", "time.time"),
            ("import time as clock\nx = clock.monotonic_ns()", "time.monotonic_ns"),
            ("from time import perf_counter as p", "time.perf_counter"),
            ("from uuid import uuid4", "uuid.uuid4"),
            ("import secrets\nsecrets.choice('a')", "secrets.choice"),
            ("import os as o\no.urandom(1)", "os.urandom"),
            ("import datetime\ndatetime.datetime.now()", "datetime.datetime.now"),
            ("from datetime import datetime as dt\ndt.now()", "datetime.datetime.now"),
            ("from twisted.internet import reactor", "twisted.internet.reactor"),
            ("from sqlalchemy import func as f\nf.now()", "sqlalchemy.func.now"),
            ("from importlib import import_module as i\ni('time')", "import_module"),
            ("x = 'UPDATE t SET at = CURRENT_TIMESTAMP'", "SQL: CURRENT_TIMESTAMP"),
            ("x = \"SELECT strftime('%s', 'now')\"", "SQL: strftime('%s', 'now'"),
        ):
            self.assertEqual(list(asked(said)), [found], said)
        for harmless in ("import time\ntime.struct_time", "x.time()", "from os import path"):
            self.assertEqual(list(asked(harmless)), [], harmless)
