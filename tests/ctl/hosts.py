"""Demo hosts on free ports, for live tests."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from svcserver.ctl.blueprint import Ports, Scale
from svcserver.ctl.host_creation import create_host
from svcserver.stack.workers import EACH
from tests.support import prestarted
from tests.support.ports import share
from tests.support.prestarted import Prestarted
from tests.support.processes import end_game_servers

PATIENCE_S = 240  # a stack may take 120 s to start (ctl/stack_process.py) where much else runs
_OURS = share(20_000, 32_000)
_ports = cycle(_OURS)
SVCCTL = str(Path(sys.executable).with_name("svcctl"))


def _row(first: int, count: int, kind: int) -> bool:
    """Return whether ``count`` ports from ``first`` on are free."""
    with ExitStack() as held:
        for port in range(first, first + count):
            probe = held.enter_context(closing(socket.socket(socket.AF_INET, kind)))
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


def row_of(count: int, kind: int) -> int:
    """Return the first of some consecutive free ports, below the kernel's ephemeral range."""
    for _ in range(len(_OURS) // count):
        row = list(islice(_ports, count))
        if row[-1] - row[0] == count - 1 and _row(row[0], count, kind):
            return row[0]
    raise AssertionError("no free ports in a row")


def demo_host(folder: Path, scale: Scale | None = None, owner: str = "owner") -> Path:
    """Create a demo host with its own files and free ports."""
    workers = scale.workers if scale is not None else 0
    tcp = row_of(14 + EACH * workers, socket.SOCK_STREAM)
    udp = row_of(8, socket.SOCK_DGRAM)
    row = [tcp + at for at in range(12)]
    ports = Ports(*row[:7], udp, udp + 7, *row[7:])
    create_host(folder, "127.0.0.1", owner, ports=ports, demo=True, scale=scale, shared=True)
    if workers > 1:
        with (folder / "stack.env").open("a") as file:
            file.write(f"WORKER_PORTS={tcp + 14}\n")
    return folder


def value(folder: Path, component: str, name: str) -> str:
    """Return one of the host's settings."""
    match = re.search(rf"(?m)^{name}=(.*)$", (folder / f"{component}.env").read_text())
    assert match, name
    return match[1]


def change(folder: Path, component: str, name: str, new: str) -> None:
    """Change one of the host's settings."""
    path = folder / f"{component}.env"
    there = path.read_text().splitlines() if path.is_file() else []
    lines = [line for line in there if not line.startswith(f"{name}=")]
    path.write_text("\n".join([*lines, f"{name}={new}", ""]))


def run(*words: object) -> subprocess.CompletedProcess[str]:
    """Run ``svcctl`` as a separate process."""
    return completed([*map(str, words)], Path.cwd(), "svcctl")


def completed(words: list[str], folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a separate process until it ends; return its result."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        outputs = out.fileno(), err.fileno()
        process = prestarted.start(words, os.environ, folder, *outputs, program=program)
        try:
            status = process.wait(PATIENCE_S)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(process.args, status, out.read(), err.read())


def demo_once(folder: Path, players: int = 2) -> subprocess.CompletedProcess[str]:
    """Run the program behind ``make run ONCE=1``, with two players."""
    return run("demo", "--once", "--config", folder, "--players", players)


@contextmanager
def stack(
    folder: Path, *words: str, itself: bool = False
) -> Iterator[Prestarted | subprocess.Popen[Any]]:
    """Run ``svc-stack``, with its output in ``out.log``.

    If ``itself`` is true, the stack and its components start as an owner starts them. Otherwise
    they are forks of a process that has already imported everything.
    """
    line = ["--nodaemon", "--pidfile=", "svc-stack", "--config", str(folder), *words]
    environ = {**os.environ, "PORT": "1", "DATABASE_URL": "sqlite:///of-the-stack.db"}
    process: Prestarted | subprocess.Popen[Any]
    with (folder / "out.log").open("wb") as out:
        if itself:
            command = [str(Path(sys.executable).with_name("twistd")), *line]
            process = subprocess.Popen(command, stdout=out, stderr=out, env=environ, cwd=folder)
        else:
            process = prestarted.start(line, environ, folder, out.fileno())
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        end_game_servers(folder)


def read_output(folder: Path) -> str:
    """Return the output of the stack and of its children."""
    return (folder / "out.log").read_text(errors="replace")
