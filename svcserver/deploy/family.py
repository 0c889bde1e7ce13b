"""The processes of one game server, even if a wrapper script starts them in the background.

A wrapper script can fork the real game server into the background, in a separate session. Every
process of a launch inherits the variable ``TAG``. Some wrapper scripts clear the environment. So
the descendants of the launched process, and the processes in its group or session, also belong to
the game server. The deploy server adopts orphans (``become_subreaper``). An orphan without the
variable belongs to a game server if the orphan uses that server's port, or has the port in its
command line.

Wine's own services do not belong to a game server, because game servers with the same WINEPREFIX
share them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from svcserver.kernel.processes import PROCESSES, started_at

log = Logger()

TAG = "SVC_GAME_SERVER"
PR_SET_CHILD_SUBREAPER = 36
ROUNDS = 8  # rounds of checks for processes forked during a kill
LOOK_AGE_S = 0.1  # seconds in which checks of many game servers share one process table
ENDING_S = 5.0  # maximum seconds in which the stop kills orphans again and again
ENDING_POLL_S = 0.02
LARGEST = 1024 * 1024  # maximum bytes read of a table or an environment
TABLES = ("net/udp", "net/udp6")
SHARED = frozenset(
    (
        "wineserver",
        "wineserver32",
        "wineserver64",
        "services.exe",
        "winedevice.exe",
        "plugplay.exe",
        "svchost.exe",
        "rpcss.exe",
        "explorer.exe",
    )
)


def become_subreaper() -> None:
    """Make this process the new parent of descendants whose own parent ends (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@frozen
class ProcessInfo:
    """A process as the kernel shows it; ``started`` (in ticks) distinguishes reused pids."""

    pid: int
    name: str
    parent: int
    group: int
    session: int
    started: int
    is_dead: bool  # a zombie, of which only the exit status is left
    ticks: int = 0  # CPU time
    pages: int = 0  # of memory


def list_processes(folder: Path = PROCESSES) -> dict[int, ProcessInfo]:
    """Return the processes of this machine by pid, including zombies."""
    processes = {}
    try:
        names = os.listdir(folder)
    except OSError:  # not Linux
        return {}
    for name in names:
        if not name.isdigit():
            continue
        try:
            text = (folder / name / "stat").read_bytes()[:LARGEST].decode("utf-8", "replace")
            head, _, rest = text.rpartition(")")
            words = rest.split()
            parent, group, session = map(int, words[1:4])
            title, dead = head.partition("(")[2], words[0] in "ZX"
            ticks, pages = int(words[11]) + int(words[12]), int(words[21])
            process = ProcessInfo(
                int(name), title, parent, group, session, int(words[19]), dead, ticks, pages
            )
        except (OSError, ValueError, IndexError):  # it has just ended
            continue
        processes[process.pid] = process
    return processes


def is_running(process: ProcessInfo, folder: Path = PROCESSES) -> bool:
    """Return whether the process runs; a later process with the same pid does not count."""
    return started_at(process.pid, folder) == process.started


def open_process(process: ProcessInfo, folder: Path = PROCESSES) -> int:
    """Return a pidfd of the process; raises ProcessLookupError if the process has ended."""
    handle = os.pidfd_open(process.pid)
    if not is_running(process, folder):
        os.close(handle)
        raise ProcessLookupError
    return handle


def send(process: ProcessInfo, number: int, folder: Path = PROCESSES) -> bool:
    """Send a signal to the process; return whether that worked. A permission error is logged."""
    try:
        _send(process, number, folder)
    except ProcessLookupError:  # it has just ended
        return False
    except OSError as error:  # such as a process that a launcher runs as another user
        log.error("process {pid} cannot be ended: {why}", pid=process.pid, why=error.strerror)
        return False
    return True


def _send(process: ProcessInfo, number: int, folder: Path) -> None:
    try:
        handle = open_process(process, folder)
        try:
            signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
    except ProcessLookupError:
        raise
    except OSError:  # pidfds are refused, as by a container's seccomp filter
        if not is_running(process, folder):
            raise ProcessLookupError from None
        os.kill(process.pid, number)


# pids of the children that the reactor waits for, from their start until it has reaped them
own_children: set[int] = set()


def reap_orphans(processes: Iterable[ProcessInfo]) -> None:
    """Reap orphans that have ended, because the reactor reaps only its own children."""
    for process in processes:
        if process.is_dead and _is_stray(process):
            with suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


async def end_strays(reactor: Any) -> None:
    """Kill the orphans that we adopted and all their descendants, until all have ended.

    Gives up after ``ENDING_S``.
    """
    deadline = reactor.seconds() + ENDING_S
    while strays := living_strays():
        for process in strays:
            send(process, signal.SIGKILL)
        if reactor.seconds() >= deadline:
            pids = ", ".join(str(process.pid) for process in strays)
            log.error(
                "processes of ended game servers still run: {pids}",
                pids=pids,
            )
            return
        await deferLater(reactor, ENDING_POLL_S)


def living_strays() -> list[ProcessInfo]:
    """Return the orphans that we adopted, and all their descendants; reap dead orphans."""
    everybody = list_processes()
    reap_orphans(everybody.values())
    living = {pid: process for pid, process in everybody.items() if not process.is_dead}
    orphans = {pid for pid, process in living.items() if _is_stray(process)}
    return [living[pid] for pid in with_descendants(orphans, living)]


def with_descendants(pids: Iterable[int], living: Mapping[int, ProcessInfo]) -> set[int]:
    """Return the processes and all their descendants."""
    children: dict[int, list[int]] = {}
    for process in living.values():
        children.setdefault(process.parent, []).append(process.pid)
    result = set(pids)
    waiting = list(result)
    while waiting:
        fresh = [pid for pid in children.get(waiting.pop(), ()) if pid not in result]
        result.update(fresh)
        waiting += fresh
    return result


def _is_stray(process: ProcessInfo) -> bool:
    return process.parent == os.getpid() and process.pid not in own_children


@frozen
class UdpSocket:
    """A row of the kernel's UDP socket table; ``address`` is in the kernel's hexadecimal form."""

    address: str
    port: int
    unread: int  # bytes
    inode: int


def udp_sockets(texts: Iterable[str]) -> list[UdpSocket]:
    """Return the UDP sockets in the kernel's tables; lines in another format are skipped."""
    sockets = []
    for text in texts:
        for line in text.splitlines()[1:]:
            words = line.split()
            try:
                address, _, port = words[1].rpartition(":")
                unread = int(words[4].partition(":")[2], 16)
                sockets.append(UdpSocket(address, int(port, 16), unread, int(words[9])))
            except (IndexError, ValueError):
                continue
    return sockets


def udp_tables(folder: Path = PROCESSES) -> list[str]:
    """Return the kernel's UDP tables as text; on Windows there are none."""
    texts = []
    for name in TABLES:
        with suppress(OSError), (folder / name).open("rb") as file:
            texts.append(file.read(LARGEST).decode("ascii", "replace"))
    return texts


@define
class ProcessTable:
    """The last process table that was read; all ``Family`` objects share it."""

    read_at: float = float("-inf")
    processes: dict[int, ProcessInfo] = field(factory=dict)


@define(eq=False)
class Family:
    """The processes of the game server ``id`` on ``port``.

    ``leader`` is the pid of the process that was started first, which leads a process group and a
    session.
    """

    reactor: Any
    id: str
    port: int
    leader: int = 0
    folder: Path = PROCESSES
    snapshot: ProcessTable = field(factory=ProcessTable)
    _since: float = field(init=False)
    _known: dict[int, int] = field(factory=dict, init=False)  # pid: started
    _foreign: dict[int, int] = field(factory=dict, init=False)  # without ``TAG``

    def __attrs_post_init__(self) -> None:
        self._since = self.reactor.seconds()

    def age(self) -> float:
        """Return for how many seconds the processes have been watched."""
        return float(self.reactor.seconds()) - self._since

    def members(self, max_age_s: float = 0.0) -> list[ProcessInfo]:
        """Return the living processes, parents before their children.

        The result may be up to ``max_age_s`` seconds old.
        """
        now, snapshot = self.reactor.seconds(), self.snapshot
        oldest = max(now - max_age_s, self._since)  # a table older than our launch lacks the leader
        if not max_age_s or snapshot.read_at < oldest:
            snapshot.processes, snapshot.read_at = list_processes(self.folder), now
            reap_orphans(snapshot.processes.values())
        everybody = snapshot.processes
        living = {pid: process for pid, process in everybody.items() if not process.is_dead}
        self._foreign = {
            pid: at for pid, at in self._foreign.items() if pid in living
        }  # so that the set stays as small as the process table
        ours = {pid for pid, process in living.items() if self._is_ours(process)}
        self.leader = self.leader if self._leads(everybody.values()) else 0
        ours |= self._strays_on_port(living.values(), ours)
        ours = with_descendants(ours, living) - {os.getpid()}
        members = [living[pid] for pid in ours if living[pid].name not in SHARED]
        self._known = {process.pid: process.started for process in members}
        return sorted(members, key=lambda process: (process.started, process.pid))

    def _is_ours(self, process: ProcessInfo) -> bool:
        if process.pid == os.getpid():
            return False
        if self._known.get(process.pid) == process.started:
            return True
        if self.leader and self.leader in (process.pid, process.group, process.session):
            return True
        return self._has_tag(process)

    def _leads(self, everybody: Iterable[ProcessInfo]) -> bool:
        """Return whether the leader's id still belongs to a process, a process group or a session.

        As long as the id is in use, the system gives it to no new process.
        """
        return any(
            self.leader in (process.pid, process.group, process.session) for process in everybody
        )

    def _has_tag(self, process: ProcessInfo) -> bool:
        if self._foreign.get(process.pid) == process.started:
            return False
        try:
            with (self.folder / str(process.pid) / "environ").open("rb") as file:
                environ = file.read(LARGEST)
        except PermissionError:  # another user's process: it stays hidden
            environ = b""
        except OSError:  # it has just ended
            return False
        if f"{TAG}={self.id}".encode() in environ.split(b"\0"):
            return True
        if process.parent != os.getpid():  # our child may not have executed its program yet
            self._foreign[process.pid] = process.started
        return False

    def _strays_on_port(self, living: Iterable[ProcessInfo], ours: set[int]) -> set[int]:
        """Return the orphans not in ``ours`` that use the port or have it in their command line."""
        strays = [process for process in living if _is_stray(process) and process.pid not in ours]
        if not strays:
            return set()
        inodes = self._inodes_of_port()
        return {
            process.pid
            for process in strays
            if self._names_port(process) or not inodes.isdisjoint(self._sockets_of(process) or ())
        }

    def _names_port(self, process: ProcessInfo) -> bool:
        """Return whether the process's command line launches a game server on this port."""
        try:
            with (self.folder / str(process.pid) / "cmdline").open("rb") as file:
                words = file.read(LARGEST).split(b"\0")
        except OSError:
            return False
        port = str(self.port).encode()
        return port in words and any(word.endswith(b":" + port) for word in words)

    def _inodes_of_port(self) -> set[int]:
        rows = udp_sockets(udp_tables(self.folder))
        return {row.inode for row in rows if row.port == self.port}

    def _sockets_of(self, process: ProcessInfo) -> set[int] | None:
        """Return the inodes of a process's sockets, or None if the kernel hides them."""
        folder, inodes = self.folder / str(process.pid) / "fd", set()
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return set()
        except OSError:
            return None
        for name in names:
            with suppress(OSError):
                target = os.readlink(folder / name)
                if target.startswith("socket:["):
                    inodes.add(int(target[8:-1]))
        return inodes

    def sockets(self) -> set[int] | None:
        """Return the inodes of the game server's sockets, or None if the kernel hides any."""
        inodes: set[int] = set()
        for process in self.members(LOOK_AGE_S):
            theirs = self._sockets_of(process)
            if theirs is None:
                return None
            inodes |= theirs
        return inodes

    def holder(self) -> ProcessInfo | None:
        """Return the process that has the port open, or None.

        If the kernel hides the sockets of some processes, the returned process may be a guess.
        """
        inodes, hidden = self._inodes_of_port(), None
        for process in self.members(LOOK_AGE_S) if inodes else ():
            theirs = self._sockets_of(process)
            if theirs is None:
                hidden = hidden or process
            elif not inodes.isdisjoint(theirs):
                return process
        return hidden

    def signal(self, number: int) -> bool:
        """Send a signal to all processes; return True if at least one received it.

        SIGKILL also goes to processes that the receivers fork in the meantime.
        """
        tried: set[tuple[int, int]] = set()
        is_sent = False
        for _ in range(ROUNDS if number == signal.SIGKILL else 1):
            fresh = [
                process for process in self.members() if (process.pid, process.started) not in tried
            ]
            if not fresh:
                break
            for process in fresh:
                is_sent = send(process, number, self.folder) or is_sent
                tried.add((process.pid, process.started))
        return is_sent

    def follow(self, process: ProcessInfo, ended: Callable[[], None]) -> Watched | Polled | None:
        """Return a watcher that calls ``ended`` when the process ends, or None if it has ended."""
        watch: Watched | Polled
        try:
            watch = Watched(self.reactor, open_process(process, self.folder), ended, ended)
        except ProcessLookupError:
            return None
        except OSError:  # pidfds are refused here
            watch = Polled(self.reactor, partial(is_running, process, self.folder), ended)
        watch.begin()
        return watch


POLL_S = 1.0


@implementer(IReadDescriptor)
@define(eq=False)
class Watched:
    """A descriptor that the reactor watches; calls ``ready`` when the descriptor is readable.

    At the end of the file, it calls ``closed``.
    """

    reactor: Any
    descriptor: int
    ready: Callable[[], object]
    closed: Callable[[], None] = lambda: None

    def begin(self) -> None:
        """Start watching."""
        self.reactor.addReader(self)

    def fileno(self) -> int:
        return self.descriptor

    def logPrefix(self) -> str:
        return "game server"

    def doRead(self) -> None:
        self.ready()

    def connectionLost(self, reason: Failure) -> None:
        self.close()
        self.closed()

    def close(self) -> None:
        """Stop watching, and close the descriptor after the current turn of the reactor.

        In this turn, the reactor may still handle an event for this descriptor's number. If the
        descriptor were closed now, a new connection could get the same number, and then the reactor
        would apply the event to that connection.
        """
        if self.descriptor >= 0:
            self.reactor.removeReader(self)
            handle, self.descriptor = self.descriptor, -1
            self.reactor.callLater(0, os.close, handle)


@define(eq=False)
class Polled:
    """A process without a pidfd; calls ``ended`` once ``is_running`` returns False."""

    reactor: Any
    is_running: Callable[[], bool]
    ended: Callable[[], None]
    _timer: Any = None

    def begin(self) -> None:
        """Schedule the next check in ``POLL_S`` seconds."""
        self._timer = self.reactor.callLater(POLL_S, self._check)

    def _check(self) -> None:
        if self.is_running():
            self.begin()
        else:
            self.ended()

    def close(self) -> None:
        """Stop polling."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
