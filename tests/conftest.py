"""In what order tests run, and which of them may start processes."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from tests.flaky import LIVE_HALF
from tests.support import failed, postgres, shared, slow

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it

GARBAGE = (20_000, 10, 10)  # allocations between looks for cycles; the tests themselves make few
WHOLE_EVERY = 1_500  # tests, between looks at everything: each takes more than a second
gc.disable()  # what is imported and collected stays
_tests = itertools.count(1)
_file: list[Path] = []  # the one that is tested

LIVE = Path(__file__).parent / "live"
STARTERS = {LIVE, Path(__file__).parent / "prove", Path(__file__).parent / "packages"}
ALONE = LIVE / "attacks"
LONGEST = (  # of which no other worker is to wait for one in the end; the longest first
    "test_launcher.py",
    "test_ctl_demo.py",
    "test_postgres_parity.py",
    "test_restart_evening.py",
    "test_first_evening.py",
    "test_launcher_packing.py",
    "test_launcher_troubles.py",
    "test_maintenance.py",
    "test_workers.py",
    "test_dashboard_away.py",
    "test_acts_across_accounts.py",
    "test_dashboard_people.py",
    "test_dashboard_machine.py",
    "test_workers_rules.py",
    "test_dashboard.py",
    "test_owner_pages.py",
    "test_simulation.py",
    "test_metagame.py",
    "test_backup.py",
    "test_remembered_heads.py",
    "test_dashboard_lists.py",
    "test_play_sabotage.py",
    "test_stalled_log.py",
    "test_alerts_flood.py",
    "test_stack.py",
    "test_migrations.py",
    "test_capacity.py",
    "test_deploy.py",
    "test_stack_frozen.py",
    "test_allowlist.py",
    "test_up.py",
    "test_workers_presence.py",
    "test_workers_stack.py",
    "test_alerts.py",
    "test_play.py",
    "test_restart.py",
)
AFTER = 4  # turns after them, for what is short
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
    """One failure is one failure, and what need be done once is done once."""
    from twisted.trial import _synctest

    from tests.support import leftovers, once  # they import the reactor, installed only now

    vars(_synctest)["__unittest"] = True  # pytest shows the line of the test, not of assertEqual

    session.config.pluginmanager.register(leftovers)
    once.install()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name what failed, and what took long and does not say why, which fails nobody's run."""
    failed.tell(terminalreporter.stats)
    stats = terminalreporter.stats.values()
    named = slow.unexplained(slow.seconds(one for reports in stats for one in reports))
    if named:
        terminalreporter.section("slow tests that do not say why")
        terminalreporter.write_line("\n".join(named[: slow.MOST]))
        if len(named) > slow.MOST:
            terminalreporter.write_line(f"and {len(named) - slow.MOST} more")


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
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> tuple[int, bool]:
    """The longest one by one, and between them short ones, so that no worker has the long alone.

    A short file's turn is drawn by its path, so that it is the same for each worker.
    """
    if item.path.name in LONGEST:
        return LONGEST.index(item.path.name), False
    file = str(item.path.relative_to(LIVE.parent))
    return crc32(file.encode()) % (len(LONGEST) + AFTER), True


def pytest_collection_finish() -> None:
    """The collector looks at what tests make, and seldom at all that was there before them."""
    gc.freeze()  # each worker would take half a second to look at it
    gc.set_threshold(*GARBAGE)
    gc.enable()


def _put_aside() -> None:
    """What tests make may hang on a dead object of before: nothing is put aside for ever."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What is not marked ``live`` is for ``make test-fast``: no process, no PostgreSQL."""
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
