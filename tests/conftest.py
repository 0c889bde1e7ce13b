"""The order of the tests, the programs that they find, and the tests that may start processes."""

import gc
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.flaky import LIVE_HALF
from tests.support import postgres, shared, slow

signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # a process started in the background ignores Ctrl-C

GARBAGE = (20_000, 10, 10)  # thresholds of garbage collection; tests create few cycles
WHOLE_EVERY = 1_500  # tests between full collections, each of which takes over a second
gc.disable()  # imported modules and collected tests live until the end
_tests = itertools.count(1)
_file: list[Path] = []  # the file whose tests are running

LIVE = Path(__file__).parent / "live"
STARTERS = {LIVE, Path(__file__).parent / "prove", Path(__file__).parent / "packages"}
ALONE = LIVE / "attacks"
ON_POSTGRESQL = "SVC_TEST_DATABASE" in os.environ  # every test's own database is one there


def pytest_configure() -> None:
    """Create the run's shared folder before any worker starts."""
    shared.folder()


@pytest.hookimpl(optionalhook=True)  # xdist may be disabled
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one worker per core, and six more for live tests, which mostly wait for processes."""
    more = 0 if "not live" in config.option.markexpr else 6
    return len(os.sched_getaffinity(0)) + more


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore files without live tests in the live half of the tests, to halve its start-up time."""
    if config.option.markexpr != LIVE_HALF:
        return None
    if collection_path.suffix != ".py" or not STARTERS.isdisjoint(collection_path.parents):
        return None
    return None if _names_live(collection_path) else True


def _names_live(file: Path) -> bool:
    return "mark.live" in file.read_text()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Register the plugin that stops one failure from causing another."""
    from tests.support import leftovers  # this imports the reactor, which is not installed before

    session.config.pluginmanager.register(leftovers)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """With ``-v``, list the slow tests that do not explain why they are slow."""
    if terminalreporter.config.option.verbose < 0:
        return
    stats = terminalreporter.stats.values()
    named = slow.unexplained(slow.seconds(report for reports in stats for report in reports))
    if named:
        terminalreporter.section("slow tests that do not say why")
        terminalreporter.write_line("\n".join(named))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start processes, and run the slowest files first."""
    for item in items:
        if not STARTERS.isdisjoint(item.path.parents):
            item.add_marker(pytest.mark.live)
        if item.get_closest_marker("alone") is not None and ALONE not in item.path.parents:
            raise pytest.UsageError(f"{item.nodeid} is marked `alone` and not in {ALONE}")
        is_live = item.get_closest_marker("live") is not None  # perhaps by another file's class
        if is_live and STARTERS.isdisjoint(item.path.parents) and not _names_live(item.path):
            raise pytest.UsageError(f"{item.path} has no `pytest.mark.live`, and is live")
    items.sort(key=lambda item: -_slow_seconds(item.path))


@cache
def _slow_seconds(file: Path) -> int:
    """Return about how long the slow tests of a file take, according to their explanations."""
    return slow.expected_s(file.read_text())


def pytest_collection_finish() -> None:
    """Exempt everything that exists before the first test from garbage collection."""
    gc.freeze()  # a collection would visit all these objects and take half a second
    gc.set_threshold(*GARBAGE)
    gc.enable()


def _put_aside() -> None:
    """Collect garbage, then exempt all remaining objects from later collections."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Refuse to start a process in a test that is not marked ``live``."""
    if next(_tests) % WHOLE_EVERY == 0:
        _put_aside()
    if _file != [item.path]:
        _file[:] = [item.path]
        gc.freeze()  # collections then visit only what this file's tests create
    if item.get_closest_marker("live") is not None or ON_POSTGRESQL:
        return (yield)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("only a test that is marked `live` may start a process")

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(subprocess.Popen, "__init__", refuse)
        patches.setattr(postgres, "_shared", refuse)
        return (yield)
