"""A check that each slow test explains itself with ``# slow: ...`` above the test or its class.

Explanations such as ``# slow: 60 s: ...`` tell ``make test`` which files to run first. If a long
file began late, one worker would still run it while the other workers had nothing left.

A run with ``-v`` lists the slow tests without an explanation. ``make flaky`` fails on such tests,
because it runs each test many times and knows the shortest duration. A single duration is not
reliable, because other tests may have run in parallel.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

SLOW_S = 5.0  # seconds that a test may take without a reason
WORD = "# slow:"
USUAL_S = 10  # of a slow test whose explanation names no seconds
EXPECTED = re.compile(rf"{WORD}(?: (\d+) s:)?")
ROOT = Path(__file__).resolve().parents[2]
Named = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def seconds(reports: Iterable[Any]) -> dict[str, float]:
    """Return a dict from test id to the test's seconds in pytest's reports, fixtures included."""
    took: Counter[str] = Counter()
    for report in reports:
        if hasattr(report, "duration") and hasattr(report, "nodeid"):
            took[report.nodeid] += report.duration
    return dict(took)


def unexplained(took: Mapping[str, float]) -> list[str]:
    """Return a line for each slow test without an explanation, the longest first."""
    slow = sorted(took.items(), key=lambda entry: -entry[1])
    return [
        f"{name} took {time:.1f} s, and no line `{WORD} ...` above it says why"
        for name, time in slow
        if time > SLOW_S and not explained(name)
    ]


def explained(name: str) -> bool:
    """Return whether a comment explains why the test, or its class, is slow."""
    file, *within = name.partition("[")[0].split("::")
    return not _reasons(ROOT / file).isdisjoint(within)


def expected_s(source: str) -> int:
    """Return the approximate seconds that the slow tests in a file's text take together."""
    return sum(int(seconds or USUAL_S) for seconds in EXPECTED.findall(source))


@lru_cache(maxsize=512)
def _reasons(file: Path) -> frozenset[str]:
    """Return the names of the classes and functions in a file that have a ``# slow:`` comment."""
    source = file.read_text("utf-8") if file.is_file() else ""
    lines = source.splitlines()
    return frozenset(
        entry.name
        for entry in ast.walk(ast.parse(source))
        if isinstance(entry, Named)
        and any(
            _above(lines, at) for at in (entry.lineno, *(m.lineno for m in entry.decorator_list))
        )
    )


def _above(lines: list[str], line: int) -> bool:
    """Return whether the comment directly above a line explains why a test is slow."""
    for text in reversed(lines[: line - 1]):
        if not text.strip().startswith("#"):
            return False
        if text.strip().startswith(WORD):
            return True
    return False
