"""What the workers of a test run share: the first that needs it makes it, for all.

It ends with the process that has begun the run, which outlives its workers.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

NAME = "SVC_TEST_SHARED"  # in the environment of all who belong to a run
ENDED_BY = ("prestarted", "postgres")  # modules with an ``end_shared`` for what ``once`` kept


def folder() -> Path:
    """The run's; whoever asks first has begun the run, or one of its own in another network."""
    told = os.environ.get(NAME)
    if told is None or (Path(told) / "network").read_text() != _network():
        made = Path(tempfile.mkdtemp(prefix="svc-tests-"))
        (made / "network").write_text(_network())
        (made / "begun-by").write_text(str(os.getpid()))
        os.environ[NAME] = str(made)
        atexit.register(_end, made, os.getpid())
    return Path(os.environ[NAME])


def _network() -> str:
    """Which of the kernel's networks this process is in: a fork is in that of who forks."""
    return os.readlink("/proc/self/ns/net")


def begun_by() -> int:
    """The process that has begun the run."""
    return int((folder() / "begun-by").read_text())


def once(name: str, make: Callable[[], str]) -> str:
    """What ``make`` said when one of the workers called it; where it raises, the next tries."""
    kept = folder() / name
    with (folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(make())
        return kept.read_text()


def _end(made: Path, begun_by: int) -> None:
    if os.getpid() != begun_by:
        return  # a fork of it that ends
    try:
        for name in ENDED_BY:
            if (made / name).exists():
                import_module(f"tests.support.{name}").end_shared((made / name).read_text())
    finally:
        shutil.rmtree(made, ignore_errors=True)
