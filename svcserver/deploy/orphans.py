"""Kills processes that an earlier deploy server started and the current one does not adopt.

They are game servers without a record, or children of a game server or wrapper script. They
inherited an environment variable that identifies the deploy server. Spec: 2 §3.
"""

import os
import select
import signal
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from twisted.logger import Logger

from svcserver.deploy.family import SHARED, TAG
from svcserver.kernel.processes import PROCESSES, started_at

log = Logger()

MARK = "SVC_DEPLOY_SERVER"
POLL_S = 0.02
ENDING_S = 2.0  # maximum wait for each process, which usually takes milliseconds


def mark(host: str, port: int) -> dict[str, str]:
    """Return the environment variable that marks our children; its value is our address."""
    return {MARK: f"{host}:{port}"}


def end_left_over(
    host: str,
    port: int,
    processes: Path = PROCESSES,
    adopted: Collection[int] = (),
    servers: Collection[str] = (),
) -> int:
    """Kill the processes that a deploy server at this address left behind; return their number.

    Spares the process groups in ``adopted``, the game servers whose ids are in ``servers``, and the
    services that these game servers share. Call this only while listening on that address, so that
    no other deploy server runs there.
    """
    ended = []
    spared = {f"{TAG}={server_id}".encode() for server_id in servers}
    shared = SHARED if servers else frozenset()
    for pid in _marked(f"{MARK}={host}:{port}".encode(), processes, spared, shared):
        try:
            if adopted and os.getpgid(pid) in adopted:
                continue
            os.kill(pid, signal.SIGKILL)
        except OSError as error:  # it has ended, or is another user's
            log.debug("process {pid} cannot be ended: {why}", pid=pid, why=error.strerror)
            continue
        log.warn("an earlier run left process {pid} behind, so the process was killed", pid=pid)
        ended.append(pid)
    wait_for(ended)
    return len(ended)


def wait_for(pids: Iterable[int]) -> None:
    """Block until killed processes have ended; call this before the reactor runs."""
    for pid in pids:
        try:
            has_ended = _wait_by_pidfd(pid)
        except ProcessLookupError:  # it has already ended
            continue
        except OSError:  # pidfds are refused
            has_ended = _wait_by_polling(pid)
        if not has_ended:
            log.warn("process {pid} has not ended yet; it may still use a port", pid=pid)


def _wait_by_pidfd(pid: int) -> bool:
    process = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(process, select.POLLIN)
        return bool(poll.poll(ENDING_S * 1000))
    finally:
        os.close(process)


def _wait_by_polling(pid: int) -> bool:
    for _ in range(int(ENDING_S / POLL_S)):
        if started_at(pid) is None:
            return True
        select.poll().poll(POLL_S * 1000)
    return False


def _marked(
    mark: bytes, processes: Path, spared: Collection[bytes], shared: Collection[str]
) -> Iterator[int]:
    ours = _network(processes / "self")
    for folder in processes.glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            environ = folder.joinpath("environ").read_bytes()
        except OSError:  # it has ended, or is another user's
            continue
        # a container that shares our process table may use the same address in another network
        words = environ.split(b"\0")
        if mark not in words or any(tag in words for tag in spared):
            continue
        if _network(folder) in (ours, None) and not (shared and _name(folder) in shared):
            yield int(folder.name)


def _name(folder: Path) -> str:
    try:
        return folder.joinpath("comm").read_text("utf-8", "replace").strip()
    except OSError:  # it has just ended
        return ""


def _network(folder: Path) -> str | None:
    """Return the network namespace of a process, or None if it cannot be determined."""
    try:
        return os.readlink(folder / "ns" / "net")
    except OSError:
        return None
