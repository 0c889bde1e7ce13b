"""Finds and stops the processes that run a host.

A stack is found by a file that it writes into the host's folder. Other services are found through
the host's database: an SQLite file has a lock that names the process, and PostgreSQL lists its
connections.
"""

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen
from sqlalchemy import text
from sqlalchemy.engine import URL

from svcserver.ctl import database
from svcserver.ctl.host import Host
from svcserver.ctl.output import Out, fail, warn
from svcserver.db.engine import BadDatabase, SQLAlchemyError, describe, make_engine
from svcserver.db.restoring import restoring
from svcserver.kernel.processes import PROCESSES, started_at
from svcserver.stack import rolling

STACK, METAGAME = "svc-stack", "svc-metagame"
STOP_S, LOOK_S = 90.0, 0.1
MOST = 16  # maximum number of workers of a host
SHARED_FIRST, SHARED_SIZE = 0x40000002, 510  # the bytes that SQLite locks
_FLOCK = "hh4xqqi4x"  # struct flock of 64-bit Linux
READS_LOCKS = sys.platform.startswith("linux") and sys.maxsize > 2**32
_USERS = (
    "SELECT application_name FROM pg_stat_activity WHERE datname = current_database() "
    "AND usename = current_user AND backend_type = 'client backend' AND pid <> pg_backend_pid() "
    "AND application_name <> current_setting('application_name') "
    "ORDER BY starts_with(application_name, 'svc-metagame') DESC LIMIT 1"
)


@frozen
class DatabaseUser:
    """A process that uses the host's database; ``pid`` is 0 if only the program's name is known."""

    what: str
    pid: int = 0

    def __str__(self) -> str:
        return f"{self.what} (process {self.pid})" if self.pid else self.what

    @property
    def unit(self) -> str:
        """The systemd unit that would restart the process; empty if there is no unit."""
        for line in _lines(self.pid, "cgroup"):
            name = line.rpartition("/")[2]
            if name.startswith("svc") and name.endswith(".service"):
                return name
        return ""


@contextmanager
def stopped(host: Host, url: URL, out: Out, *, stop_it: bool) -> Iterator[None]:
    """Keep the host stopped during the ``with`` block.

    Raises Failed if the host runs and ``stop_it`` is False. A lock prevents a metagame from
    starting during the block.
    """
    if stop_it:
        for user in stop(host, url):
            out.text(f"stopped {user}")
    with ExitStack() as stack:
        try:
            stack.enter_context(restoring(url))
        except BadDatabase as why:
            fail(f"the database cannot be restored: {why}")
        except (OSError, SQLAlchemyError) as why:
            fail(f"the database cannot be locked: {describe(why)}")
        refuse_running(host, url)
        yield


def refuse_running(host: Host, url: URL) -> None:
    """Raise Failed if the host runs, or if any other program uses its database."""
    if (user := _user(host, url)) is None:
        return
    if user.unit:
        fail(f"the host is running: {user}. {_stop_line(user.unit)}")
    if not user.what.startswith((STACK, METAGAME)):
        fail(
            f"the host may be running: {user} uses the host's database. Stop the host or the "
            "program that uses the database. Then run this command again"
        )
    if not user.pid:
        fail(
            f"the host is running: {user} uses the host's database. Stop the host, then run this "
            "command again"
        )
    fail(f"the host is running: {user}. Stop the host, or add --stop to this command")


def stop(host: Host, url: URL) -> list[DatabaseUser]:
    """Stop the host and wait until it has ended; return the processes that were stopped."""
    stopped: list[DatabaseUser] = []
    while (user := _user(host, url)) is not None:
        if not user.pid:
            fail(
                f"--stop cannot end {user}, which uses the database. PostgreSQL shows the "
                "connection, but does not show the process of the connection. Stop the program "
                "yourself, then run this command again"
            )
        if len(stopped) >= MOST:
            fail(
                f"{user} uses the database, although --stop has ended {MOST} processes. Stop what "
                "starts these processes, then run this command again"
            )
        if user.what not in (STACK, METAGAME):
            fail(
                f"{user} uses the database and is not a service of this host. Stop the program "
                "that uses the database, then run this command again"
            )
        _end(user)
        stopped.append(user)
    return stopped


def _end(user: DatabaseUser) -> None:
    started, deadline = started_at(user.pid), time.monotonic() + STOP_S
    if user.unit:
        _systemctl(user.unit)
    else:
        try:
            os.kill(user.pid, signal.SIGTERM)
        except ProcessLookupError:
            return
        except PermissionError:
            fail(
                f"svcctl cannot stop {user}, because the process runs as another system user. "
                f"Stop the process with: sudo kill {user.pid}"
            )
    while started is not None and started_at(user.pid) == started:
        if time.monotonic() > deadline:
            fail(
                f"{user} is still running {STOP_S:.0f} s after the signal SIGTERM. Look for the "
                "cause in the log of the process"
            )
        time.sleep(LOOK_S)


def _stop_line(unit: str) -> str:
    return f"Stop the service with: sudo systemctl stop {unit}"


def _systemctl(unit: str) -> None:
    if os.geteuid() != 0:  # root has already switched to the owner of the host's folder
        fail(f"--stop failed, because only root can stop {unit}. {_stop_line(unit)}")
    command = ["systemctl", "stop", unit]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=STOP_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as why:
        fail(f"{' '.join(command)} failed: {why}")
    if done.returncode:
        fail(f"{' '.join(command)} failed: {done.stderr.strip()[:200]}")


def _user(host: Host, url: URL) -> DatabaseUser | None:
    """Return a process that runs the host or uses its database; None if there is no such process.

    If ``svc-stack`` runs the host, it is returned, even if other processes use the database.
    """
    stack = rolling.read_state(host.folder or Path())
    if stack is not None:
        return DatabaseUser(STACK, stack.pid)
    if (file := database.file_of(url)) is not None:
        return _holder(file)
    with database.transaction(make_engine(url)) as tx:
        name = tx.execute(text(_USERS)).scalar_one_or_none()
    return None if name is None else DatabaseUser(name or "a program without a name")


def _holder(file: Path) -> DatabaseUser | None:
    """Return a process that has an SQLite file open; None if there is no such process.

    If the system does not show locks, warn and return None. The calling process must not have the
    file open: when this function closes the file, the system releases all locks that the calling
    process has on the file.
    """
    if not file.exists():
        return None
    if not READS_LOCKS:
        warn(
            f"on this system, svcctl cannot check whether a program is using {file}. Run this "
            "command only while the host is stopped"
        )
        return None
    import fcntl

    query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, SHARED_FIRST, SHARED_SIZE, 0)
    with file.open("rb") as handle:
        lock = struct.unpack(_FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, query))
    if lock[0] == fcntl.F_UNLCK:
        return None
    pid = max(int(lock[4]), 0)
    words = "\0".join(_lines(pid, "cmdline")).split("\0")
    return DatabaseUser(METAGAME if METAGAME in words else Path(words[0]).name or "a program", pid)


def _lines(pid: int, name: str) -> list[str]:
    """Return the lines of a process's file in /proc; empty if the file cannot be read."""
    try:
        return (PROCESSES / str(pid) / name).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
