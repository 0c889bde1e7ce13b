"""The servers that are compared: the metagame as an owner runs it, and the baselines."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from svcserver.ctl.keys import new_signing_keys

SERVER_CORE = 0
LOAD_CORE = 1
START_S = 90.0  # enough on a busy machine
CORES = os.sched_getaffinity(0)  # at the start, before the generator pins itself to a core


def pinned(core: int, command: list[str]) -> list[str]:
    """Return ``command`` pinned to the core ``core``, if the machine has more than one core."""
    return ["taskset", "-c", str(core), *command] if {SERVER_CORE, LOAD_CORE} <= CORES else command


def on_the_generators_core() -> None:
    """Pin this process and its future child processes to the load generator's core."""
    os.sched_setaffinity(0, {LOAD_CORE} & CORES or CORES)


@contextmanager
def all_cores() -> Iterator[None]:
    """Let the programs that are started within this context run on any core."""
    os.sched_setaffinity(0, CORES)
    try:
        yield
    finally:
        on_the_generators_core()


def free_port() -> int:
    """Return a TCP port that no program uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    command: list[str],
    port: int,
    log: Path,
    environ: dict[str, str],
    core: int = SERVER_CORE,
    start_s: float = START_S,
    folder: Path | None = None,
) -> Iterator[int]:
    """Start a server pinned to its core, yield its pid once it listens, and finally end it.

    The server works in ``folder``, by default in the current folder.
    """
    with log.open("wb") as out:
        process = subprocess.Popen(
            pinned(core, command),
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environ},
            cwd=folder,
        )
    try:
        _wait_for(port, process, log, start_s)
        yield process.pid
    finally:
        process.terminate()
        process.wait(timeout=30)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path, start_s: float) -> None:
    deadline = time.monotonic() + start_s
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    raise SystemExit(f"{process.args!r} did not start:\n{log.read_text()[-2000:]}")


@contextmanager
def metagame(
    folder: Path,
    name: str = "bench",
    core: int = SERVER_CORE,
    options: tuple[str, ...] = (),
    programs: Path | None = None,
    **more: str,
) -> Iterator[tuple[int, int]]:
    """Run a metagame with its request log on and these options of twistd; yield port and pid.

    ``programs`` is the folder with ``twistd``, by default this environment's.
    """
    port = free_port()
    keys = new_signing_keys()
    environ = {
        "PORT": str(port),
        "AUTH_MODE": "APIKEY",
        "REGISTRATION_MODE": "OPEN",
        "NODE_ENV": "production",
        "DATABASE_URL": f"sqlite:///{folder}/{name}.db",
        "AUTH_SIGNING_PRIVKEY_B64": keys.private,
        "AUTH_SIGNING_PUBKEY_B64": keys.public,
        **more,
    }
    twistd = str((programs or Path(sys.executable).parent) / "twistd")
    command = [twistd, "--nodaemon", "--pidfile=", *options, "svc-metagame"]
    log = folder / f"{name}.log"
    with running(command, port, log, environ, core, folder=folder) as pid:  # for live-state.json
        yield port, pid


@contextmanager
def bare_twisted(folder: Path) -> Iterator[tuple[int, int]]:
    """Run one twisted.web resource, the baseline of reads; yield its port and pid."""
    port = free_port()
    log = folder / "bare-requests.log"
    command = [sys.executable, "-m", "bench.bare_twisted", str(port), str(log)]
    with running(command, port, folder / "bare.log", {}) as pid:
        yield port, pid


@contextmanager
def bare_uvicorn(folder: Path) -> Iterator[tuple[int, int]]:
    """Run one starlette route under uvicorn, the second baseline of reads; yield port and pid."""
    port = free_port()
    command = [sys.executable, "-m", "bench.bare_uvicorn", str(port)]
    with running(command, port, folder / "uvicorn.log", {}) as pid:
        yield port, pid


@contextmanager
def bare_store(folder: Path) -> Iterator[tuple[int, int]]:
    """Run twisted.web with the bare writer, the baseline of writes; yield port and pid."""
    port = free_port()
    (folder / "store").mkdir()
    command = [sys.executable, "-m", "bench.bare_store", str(port), str(folder / "store")]
    with running(command, port, folder / "store.log", {}) as pid:
        yield port, pid
