"""Resources that the workers of a test run share: the first worker makes one for all.

It ends with the process that has begun the run, which outlives its workers: that one ends it, and
where it is killed a process that watches it does.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import select
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

WATCHED = "watched"  # the first of what is made
NAME = "SVC_TEST_SHARED"  # in the environment of all who belong to a run
ENDED_BY = ("prestarted", "postgres")  # modules with an ``end_shared`` for what ``once`` kept
ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path:
    """The run's; whoever asks first has begun the run, or one of its own in another network."""
    path = os.environ.get(NAME)
    if path is None or (Path(path) / "network").read_text() != _network():
        made = Path(tempfile.mkdtemp(prefix="svc-tests-"))  # noqa: TID251 - removed below
        (made / "network").write_text(_network())
        (made / "begun-by").write_text(str(os.getpid()))
        os.environ[NAME] = str(made)
        atexit.register(_end_by, made, os.getpid())
    return Path(os.environ[NAME])


def _network() -> str:
    """Which of the kernel's networks this process is in: a fork is in that of who forks."""
    return os.readlink("/proc/self/ns/net")


def begun_by() -> int:
    """The process that has begun the run."""
    return int((folder() / "begun-by").read_text())


def once(name: str, make: Callable[[], str]) -> str:
    """Return the text that ``make`` returned to the first worker; after an error the next tries."""
    if name != WATCHED:
        once(WATCHED, _watch)
    stored = folder() / name
    with (folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stored.exists():
            stored.write_text(make())
        return stored.read_text()


def _watch() -> str:
    """Start the process that ends what is shared when the run is killed; its process id.

    Nobody waits for it: it ends with the run, and so after who starts it.
    """
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    words = [sys.executable, "-m", __name__, str(begun_by()), str(folder())]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return str(os.posix_spawn(sys.executable, words, environ, file_actions=nothing, setsid=True))


def main() -> None:
    """Wait for the end of the process that has begun the run; then end what it has left."""
    with suppress(ProcessLookupError):  # it has ended already
        select.select([os.pidfd_open(int(sys.argv[1]))], [], [])
    left = Path(sys.argv[2])
    if left.exists():
        _end(left)


def _end_by(made: Path, begun_by: int) -> None:
    if os.getpid() == begun_by:  # else a fork of it ends
        _end(made)


def _end(made: Path) -> None:
    try:
        for name in ENDED_BY:
            if (made / name).exists():
                import_module(f"tests.support.{name}").end_shared((made / name).read_text())
    finally:
        shutil.rmtree(made, ignore_errors=True)


if __name__ == "__main__":
    main()
