"""The order of the tests, the programs they find, and which of them may start processes."""

from __future__ import annotations

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

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it

GARBAGE = (20_000, 10, 10)  # allocations between looks for cycles; the tests themselves make few
WHOLE_EVERY = 1_500  # tests, between looks at everything: each takes more than a second
gc.disable()  # what is imported and collected stays
_tests = itertools.count(1)
_file: list[Path] = []  # the one that is tested

LIVE = Path(__file__).parent / "live"
STARTERS = {LIVE, Path(__file__).parent / "prove", Path(__file__).parent / "packages"}
ALONE = LIVE / "attacks"
ON_POSTGRESQL = "SVC_TEST_DATABASE" in os.environ  # every test's own database is one there


def pytest_configure() -> None:
    """Begin the run: workers, which come later, find what they share."""
    shared.folder()


@pytest.hookimpl(optionalhook=True)  # a run may be without xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A worker for every core, and six more where most tests wait for what they have started."""
    more = 0 if "not live" in config.option.markexpr else 6
    return len(os.sched_getaffinity(0)) + more


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The live half need not import what has no live test: half of what a worker would."""
    if config.option.markexpr != LIVE_HALF:
        return None
    if collection_path.suffix != ".py" or not STARTERS.isdisjoint(collection_path.parents):
        return None
    return None if _names_live(collection_path) else True


def _names_live(file: Path) -> bool:
    return "mark.live" in file.read_text()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep one failure from becoming two."""
    from tests.support import leftovers  # it imports the reactor, which is installed only now

    session.config.pluginmanager.register(leftovers)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """With ``-v``, name the slow tests that do not say why."""
    if terminalreporter.config.option.verbose < 0:
        return
    stats = terminalreporter.stats.values()
    named = slow.unexplained(slow.seconds(report for reports in stats for report in reports))
    if named:
        terminalreporter.section("slow tests that do not say why")
        terminalreporter.write_line("\n".join(named))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts processes, and say in what order files are tested."""
    for item in items:
        if not STARTERS.isdisjoint(item.path.parents):
            item.add_marker(pytest.mark.live)
        if item.get_closest_marker("alone") is not None and ALONE not in item.path.parents:
            raise pytest.UsageError(f"{item.nodeid} is marked `alone` and not in {ALONE}")
        is_live = item.get_closest_marker("live") is not None  # perhaps by another file's class
        if is_live and STARTERS.isdisjoint(item.path.parents) and not _names_live(item.path):
            raise pytest.UsageError(f"{item.path} has no `pytest.mark.live`, and is live")
    items.sort(key=lambda item: -_slow_tests(item.path))


@cache
def _slow_tests(file: Path) -> int:
    """Return how many tests of a file say why they are slow: long files begin first."""
    return file.read_text().count(slow.WORD)


def pytest_collection_finish() -> None:
    """The collector looks at what tests make, and seldom at all that was there before them."""
    gc.freeze()  # each worker would take half a second to look at it
    gc.set_threshold(*GARBAGE)
    gc.enable()


def _put_aside() -> None:
    """Collect garbage before freezing it, since test objects may hang on dead ones."""
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
        gc.freeze()  # whoever looks, as each simulation does, looks at what this file made
    if item.get_closest_marker("live") is not None or ON_POSTGRESQL:
        return (yield)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("only a test that is marked `live` may start a process")

    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(subprocess.Popen, "__init__", refuse)
        patches.setattr(postgres, "_shared", refuse)
        return (yield)
