"""A throw-away PostgreSQL instance, one for a test run, a fresh database per caller."""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from tests.support.requirements import skip

_numbers = itertools.count(1)


def fresh_database() -> str:
    """The URL of an empty database; skips where PostgreSQL is not installed."""
    folder = _instance()
    name = f"svc_{os.getpid()}_{next(_numbers)}"
    admin = create_engine(_url(folder, "postgres"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    admin.dispose()
    return _url(folder, name)


def _url(folder: str, name: str) -> str:
    return f"postgresql+psycopg://svc@/{name}?host={folder}"


@lru_cache(maxsize=1)
def _instance() -> str:
    """Start the instance on a Unix socket; the folder of the socket."""
    binaries = _binaries()
    if binaries is None:
        raise skip("postgres", "its binaries are not installed")
    folder = tempfile.mkdtemp(prefix="svc-pg-")
    data = Path(folder, "data")
    options = _unprivileged(folder)
    _run([binaries / "initdb", "-D", data, "-U", "svc", "-A", "trust", "-N", "-E", "UTF8"], options)
    start = ["-o", f"-c listen_addresses='' -c unix_socket_directories={folder}", "-w", "start"]
    _run([binaries / "pg_ctl", "-D", data, "-l", Path(folder, "log"), *start], options)

    def stop() -> None:
        _run([binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop"], options)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return folder


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("initdb")
    return Path(elsewhere).parent if elsewhere else None


def _unprivileged(folder: str) -> dict[str, Any]:
    """initdb refuses root: give the folder away and run as nobody."""
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _run(command: list[Any], options: dict[str, Any]) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
        cwd="/",
        **options,
    )
    if done.returncode:
        raise AssertionError(done.stderr.decode(errors="replace"))
