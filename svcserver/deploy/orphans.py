"""Game servers that an earlier run left behind: found by their environment, and ended.

The leash ends what this server started itself, but not what a launcher or a game server
forked. Each carries a mark in its environment, which its own children inherit. Spec: 2 §3.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from twisted.logger import Logger

log = Logger()

MARK = "SVC_DEPLOY_SERVER"
PROCESSES = Path("/proc")


def mark(host: str, port: int) -> dict[str, str]:
    """What a child gets into its environment: the one address only we can listen on."""
    return {MARK: f"{host}:{port}"}


def end_left_over(host: str, port: int, processes: Path = PROCESSES) -> int:
    """Kill what an earlier run at this address started; how many. Only we may be running."""
    count = 0
    for pid in _marked(f"{MARK}={host}:{port}".encode(), processes):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError as why:  # it ended by itself, or is not ours to end
            log.debug("process {pid} cannot be ended: {why}", pid=pid, why=why.strerror)
            continue
        log.warn("ended process {pid}, which an earlier run left behind", pid=pid)
        count += 1
    return count


def _marked(wanted: bytes, processes: Path) -> Iterator[int]:
    for folder in processes.glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            environ = folder.joinpath("environ").read_bytes()
        except OSError:  # gone meanwhile, or of another user
            continue
        if wanted in environ.split(b"\0"):
            yield int(folder.name)
