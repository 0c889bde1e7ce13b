"""Whether a host runs, by whatever started it, and how it is stopped.

A stack is known by its file. Services under systemd and a metagame that was started by hand are
known by the database, which they hold open: an SQLite file by its lock, PostgreSQL by its list of
connections.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

from attrs import frozen
from sqlalchemy import text
from sqlalchemy.engine import URL

from svcserver.ctl import database
from svcserver.ctl.host import Host
from svcserver.ctl.output import fail
from svcserver.db.engine import make_engine
from svcserver.kernel.processes import PROCESSES, started_at
from svcserver.stack import rolling

STACK, METAGAME = "svc-stack", "svc-metagame"
STOP_S, LOOK_S = 90.0, 0.1
MOST = 16  # workers of a host
SHARED_FIRST, SHARED_SIZE = 0x40000002, 510  # SQLite's lock of who has the file open
_FLOCK = "hh4xqqi4x"  # struct flock of 64-bit Linux
_USERS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
    "AND usename = current_user AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


@frozen
class User:
    """A process of the host, or another one that uses its database; ``pid`` 0: elsewhere."""

    what: str
    pid: int = 0

    def __str__(self) -> str:
        return f"{self.what} (process {self.pid})" if self.pid else self.what

    @property
    def unit(self) -> str:
        """The systemd unit that runs it, and would start it again; empty for none."""
        for line in _lines(self.pid, "cgroup"):
            name = line.rpartition("/")[2]
            if name.startswith("svc") and name.endswith(".service"):
                return name
        return ""


def refuse_running(host: Host, url: URL) -> None:
    """Fail with one line if the host runs, or anything else uses its database."""
    if (user := _user(host, url)) is not None:
        cure = f"systemctl stop {user.unit}" if user.unit else "end it"
        fail(f"the host runs: {user}. Stop it first ({cure}), or give --stop")


def stop(host: Host, url: URL) -> list[User]:
    """Stop the host and wait until it has ended; returns what was stopped."""
    stopped: list[User] = []
    while (user := _user(host, url)) is not None:
        if user.what not in (STACK, METAGAME) or len(stopped) >= MOST:
            fail(f"{user} uses the database and is no service of this host. End it, and try again")
        _end(user)
        stopped.append(user)
    return stopped


def _end(user: User) -> None:
    started, deadline = started_at(user.pid), time.monotonic() + STOP_S
    if user.unit:
        _systemctl(user.unit)
    else:
        try:
            os.kill(user.pid, signal.SIGTERM)
        except ProcessLookupError:
            return
        except PermissionError:
            fail(f"{user} belongs to another user. Stop it as that user, or as root")
    while started is not None and started_at(user.pid) == started:
        if time.monotonic() > deadline:
            fail(f"{user} has not ended {STOP_S:.0f} s after SIGTERM; look at its lines")
        time.sleep(LOOK_S)


def _systemctl(unit: str) -> None:
    command = ["systemctl", "stop", unit]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=STOP_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as why:
        fail(f"{' '.join(command)} failed: {why}")
    if done.returncode:
        fail(f"{' '.join(command)} failed: {done.stderr.strip()[:200]}")


def _user(host: Host, url: URL) -> User | None:
    """The stack of the host's folder, or else a user of its database."""
    stack = rolling.read(host.folder or Path())
    if stack is not None:
        return User(STACK, stack.pid)
    if (file := database.file_of(url)) is not None:
        return _holder(file)
    with database.transaction(make_engine(url)) as tx:
        count = int(tx.execute(text(_USERS)).scalar_one())
    return User(f"{count} connections to its database") if count else None


def _holder(file: Path) -> User | None:
    """A process that has an SQLite file open; None where that cannot be known.

    Call it while this process has the file not open: closing a file ends all its locks.
    """
    if not sys.platform.startswith("linux") or not file.exists():
        return None
    import fcntl

    wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, SHARED_FIRST, SHARED_SIZE, 0)
    with file.open("rb") as handle:
        found = struct.unpack(_FLOCK, fcntl.fcntl(handle, fcntl.F_GETLK, wanted))
    if found[0] == fcntl.F_UNLCK:
        return None
    pid = max(int(found[4]), 0)
    words = "\0".join(_lines(pid, "cmdline")).split("\0")
    return User(METAGAME if METAGAME in words else Path(words[0]).name or "a program", pid)


def _lines(pid: int, name: str) -> list[str]:
    """The lines of a file in /proc; none for a process elsewhere."""
    try:
        return (PROCESSES / str(pid) / name).read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
