"""Resources that the workers of a test run share; the first worker creates each resource.

The process that started the run outlives its workers and ends the shared resources. If that process
is killed, a watcher process ends the resources.
"""

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

WATCHED = "watched"  # the first resource that is created
NAME = "SVC_TEST_SHARED"  # a variable in the environment of every process of a run
ENDED_BY = ("prestarted", "postgres")  # modules with an ``end_shared`` for what ``once`` kept
ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path:
    """Return the run's shared folder; each network namespace has its own shared folder."""
    path = os.environ.get(NAME)
    if path is None or (Path(path) / "network").read_text() != _network():
        made = Path(tempfile.mkdtemp(prefix="svc-tests-"))  # noqa: TID251 - removed below
        (made / "network").write_text(_network())
        (made / "begun-by").write_text(str(os.getpid()))
        os.environ[NAME] = str(made)
        atexit.register(_end_by, made, os.getpid())
    return Path(os.environ[NAME])


def _network() -> str:
    """Return the network namespace of this process; a fork inherits it from its parent."""
    return os.readlink("/proc/self/ns/net")


def begun_by() -> int:
    """Return the id of the process that started the run."""
    return int((folder() / "begun-by").read_text())


def once(name: str, make: Callable[[], str]) -> str:
    """Run ``make`` in the first worker that calls this; return its result in every worker.

    After an error, the next worker runs ``make`` again.
    """
    if name != WATCHED:
        once(WATCHED, _watch)
    stored = folder() / name
    with (folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stored.exists():
            stored.write_text(make())
        return stored.read_text()


def _watch() -> str:
    """Start the process that ends the shared resources if the run is killed; return its id.

    No process waits for the watcher, because the watcher ends after the process that started it.
    """
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    words = [sys.executable, "-m", __name__, str(begun_by()), str(folder())]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    return str(os.posix_spawn(sys.executable, words, environ, file_actions=nothing, setsid=True))


def main() -> None:
    """Wait until the process that started the run has ended; then end the shared resources."""
    with suppress(ProcessLookupError):  # the process has already ended
        select.select([os.pidfd_open(int(sys.argv[1]))], [], [])
    left = Path(sys.argv[2])
    if left.exists():
        _end(left)


def _end_by(made: Path, begun_by: int) -> None:
    if os.getpid() == begun_by:  # otherwise a fork of that process is ending
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
