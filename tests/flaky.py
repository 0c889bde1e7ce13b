"""Count the tests that fail sometimes: ``make flaky RUNS=20``.

The program runs the live half repeatedly, as ``make test`` does, or only the part of it that
``WHAT`` names (``WHAT=tests/live/test_chat.py``). It stores the result of each complete run in
``_artefacts/flaky``, so that a stopped count can continue; a new commit starts a new count. The
exit status is 1 if a test has failed in any run, or was slow in every run without an explanation
(``tests/support/slow.py``).
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest

from tests.support import slow

ROOT = Path(__file__).parents[1]
FILE = "SVC_TEST_FLAKY"  # the variable that names the file of results
SIDE_BY_SIDE = ("-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder")
LIVE_HALF = "live and not alone and not packages"  # as in the Makefile
PARTS = ((LIVE_HALF, *SIDE_BY_SIDE), ("live and alone",))
NOTHING_COLLECTED = 5


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Append the session's results to the file, unless this process is only a worker."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if hasattr(session.config, "workerinput") or reporter is None:
        return
    view = reporter.stats
    failed = [entry.nodeid for how in ("failed", "error") for entry in view.get(how, [])]
    took = slow.seconds(entry for reports in view.values() for entry in reports)
    replies = {"passed": len(view.get("passed", [])), "failed": failed, "seconds": took}
    with Path(os.environ[FILE]).open("a") as file:
        file.write(json.dumps(replies) + "\n")


def once(file: Path, what: list[str]) -> None:
    """Run ``what`` once; create ``file`` when the run is complete. Exit if tests cannot start."""
    part = file.with_suffix(".part")
    part.unlink(missing_ok=True)
    for marks, *side_by_side in PARTS:
        words = ["-p", "tests.flaky", "--tb=short", "-m", marks, *side_by_side, *what]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=ROOT,
            env={**os.environ, FILE: str(part)},
            check=False,
        )
        if done.returncode not in (0, 1, NOTHING_COLLECTED):
            sys.exit(done.returncode)
    part.rename(file)


def summarize_runs(files: list[Path]) -> tuple[str, bool]:
    """Return the results of all runs as text, and whether tests ran and none failed or was slow."""
    failed: Counter[str] = Counter()
    least: dict[str, float] = {}  # the shortest duration of each test
    passed = 0
    for file in files:
        for line in file.read_text().splitlines():
            reply = json.loads(line)
            failed.update(set(reply["failed"]))
            passed += reply["passed"]
            for name, took in reply["seconds"].items():
                least[name] = min(took, least.get(name, took))
    lines = [
        *(f"{name} failed in {count} of {len(files)} runs" for name, count in failed.most_common()),
        *(slowly := slow.unexplained(least)),
    ]
    if not passed and not failed:
        return "nothing was tested: none of it belongs to the live half", False
    verdict = f"{len(files)} runs, {passed} times passed, {len(failed)} flaky tests"
    return "\n".join([*lines, verdict]), not failed and not slowly


def main() -> int:
    """Run the tests repeatedly and print the count, as the module describes."""
    if not sys.argv[1].isdecimal() or (runs := int(sys.argv[1])) < 1:
        sys.exit(f"make flaky: RUNS is a count of runs, such as 20; it was {sys.argv[1]}")
    what = sys.argv[2:] or ["tests"]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    folder = ROOT / "_artefacts" / "flaky" / f"{commit}-{crc32(' '.join(what).encode()):x}"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number}.json" for number in range(1, runs + 1)]
    for file in files:
        if not file.exists():
            began = time.monotonic()
            once(file, what)
            print(f"run {file.stem} of {runs}: {time.monotonic() - began:.0f} s", flush=True)
    text, well = summarize_runs(files)
    print(text)
    return int(not well)


if __name__ == "__main__":
    sys.exit(main())
