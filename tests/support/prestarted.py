"""Services and ``svcctl`` as separate processes that start without importing everything again.

One process per test run imports the services, and forks for each program that a test starts. The
fork has its own pid, memory, signals, folder, environment, umask, descriptors and command line. It
is ready one second sooner than a new interpreter. When ``svc-stack`` or ``svcctl demo`` starts one
of our programs, that program is a fork as well (``offspring.py``). Forks do not prove that a
program can start by itself, so some tests start each program as an owner does. Seven files of live
tests took 261 s with forks, and 390 s without.

The reactor is not imported before the fork, because forks cannot share a reactor.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import define, field

from svcserver.ctl.main import COMMANDS
from tests.support import offspring, proclist, shared

REACTOR = "twisted.internet.reactor"
NAMES = ("metagame", "deploy", "content", "gateway", "allowlist", "relay", "stack")
SERVICES = (*(f"{name}.service" for name in NAMES), "stack.watch")
ROOT = Path(__file__).resolve().parents[2]
MOST_WORKERS = 64  # that wait for the forking process while it imports
END_S = 20.0
STOP_S = 8.0  # for processes of a killed worker; a stack first ends its children
FORKED = {"pid": 0}  # the reply in the fork itself
CHANGE = "SVC_TEST_CHANGE"  # a variable with Python code that runs before the program
_forked: set[int] = set()  # pids of forks that are not reaped
_begun: dict[str, subprocess.Popen[bytes]] = {}  # by socket, if this worker started the process


@define(eq=False)
class Prestarted:
    """A forked process with the part of ``subprocess.Popen`` that tests use."""

    pid: int
    args: list[str]
    _parent: Parent
    _ended: int = field(init=False)  # a descriptor that is readable once the process has ended
    returncode: int | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._ended = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """Return the exit status, or None while the process runs."""
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end and return the exit status."""
        status = self._status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def _status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
            status = self._parent.ask({"reap": self.pid})
            self.returncode = os.waitstatus_to_exitcode(status["status"])
            os.close(self._ended)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Parent:
    """One worker's connection to the forking process; ``path`` is the socket's path."""

    def __init__(self, path: str) -> None:
        self._ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.connect(path)
        atexit.register(self.close)

    def close(self) -> None:
        """Close the connection after the last request."""
        self._ours.close()

    def ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """Send one request and return the reply; raise OSError if the request failed."""
        reply = offspring.ask(self._ours, request, descriptors)
        if "failed" in reply:
            raise OSError(reply["failed"])
        return reply


def start(
    words: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    out: int,
    err: int | None = None,
    program: str = "twistd",
) -> Prestarted:
    """Start ``twistd``, ``svcctl``, ``svc-launcher`` or a function (``tests.x:main``).

    ``err`` defaults to ``out``.
    """
    parent = _parent()
    line = [str(Path(sys.executable).with_name(program)), *words]
    request = {
        "line": line,
        "environ": dict(environ),
        "cwd": str(cwd),
        "targets": [1, 2],
        "umask": offspring.umask(),
    }
    return Prestarted(parent.ask(request, [out, out if err is None else err])["pid"], line, parent)


def socket_path() -> str:
    """Return the path of the socket at which any process of the run can ask for a fork."""
    return shared.once("prestarted", _begin)


@lru_cache(maxsize=1)
def _parent() -> Parent:
    return Parent(socket_path())


def _begin() -> str:
    """Start the forking process and return its socket's path once all imports are done."""
    path = str(shared.folder() / "fork")
    known = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    Path(path).unlink(missing_ok=True)  # left by a worker that failed to start the process
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as theirs:
        theirs.bind(path)
        theirs.listen(MOST_WORKERS)
        words = str(theirs.fileno()), str(shared.begun_by())
        _begun[path] = subprocess.Popen(
            [sys.executable, "-m", __name__, *words, proclist.ROOM],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            env={**known, "ROOM": proclist.ROOM},
            start_new_session=True,  # Ctrl-C reaches only the tests, which then end this process
        )
    return path


def end_shared(path: str) -> None:
    """End the forking process and wait for its exit."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as ours:
        ours.settimeout(END_S)
        with suppress(OSError):  # it has ended
            ours.connect(path)
            ours.send(json.dumps({"end": True}).encode())
            ours.recv(1)
    if path in _begun:
        _begun.pop(path).wait(END_S)


def main() -> None:
    """Fork on request until the run is over; run the requested program in each fork."""
    sys.modules[REACTOR] = ModuleType(REACTOR)  # so that no import installs a reactor
    commands = {f"ctl.{module}" for module, _ in COMMANDS.values()}
    for name in (*SERVICES, "metagame.chat_ports", "web.options", "stack.child", *sorted(commands)):
        import_module(f"svcserver.{name}")
    import_module("tests.support.migrated").always_copy()
    gc.collect()
    gc.freeze()  # all forks share these objects, so no garbage collector should visit them
    try:
        run = os.pidfd_open(int(sys.argv[2]))
    except ProcessLookupError:  # the test run has been killed meanwhile
        return
    wanted = _serve(socket.socket(fileno=int(sys.argv[1])), run)
    os.close(run)
    if wanted is None:
        return
    os.setsid()
    line = offspring.become(*wanted)
    time.tzset()
    line = offspring.with_nurse(line)
    del sys.modules[REACTOR]
    vars(sys.modules["twisted.internet"]).pop("reactor", None)
    exec(os.environ.pop(CHANGE, ""), {})  # noqa: S102 - a test's own words
    offspring.run(line)


def _serve(listener: socket.socket, run: int) -> tuple[dict[str, Any], list[int]] | None:
    """Answer requests for forks.

    In each fork, return the request and its descriptors. In the forking process, return None on a
    request to stop, or when the test run dies. If a request cannot be fulfilled, only the worker
    that sent it gets an error.
    """
    open_ = [listener]
    try:
        while True:
            ready = select.select([*open_, run], [], [])[0]
            if run in ready:
                _end_forked()
                return None
            connection = ready[0]
            if connection is listener:
                with suppress(OSError):  # the worker has ended meanwhile
                    open_.append(listener.accept()[0])
                continue
            answer, descriptors = _receive_request(connection)
            if not answer:  # a worker has ended
                open_.remove(connection)
                connection.close()
                continue
            try:
                request = json.loads(answer)
                if "end" in request:
                    _end_forked()
                    return None
                reply = _granted(request)
            except (OSError, ValueError) as error:
                reply = {"failed": f"{type(error).__name__}: {error}"}
            if reply == FORKED:
                return request, descriptors
            for number in descriptors:
                os.close(number)
            _send_reply(connection, reply)
    finally:
        for entry in open_:
            entry.close()


def _granted(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to a request; return ``FORKED`` in the new process."""
    if "reap" in request:
        status = os.waitpid(request["reap"], 0)[1]
        _forked.discard(request["reap"])
        return {"status": status}
    pid = os.fork()
    if pid:
        _forked.add(pid)
    return {"pid": pid}


def _end_forked() -> None:
    """End the processes that an interrupted worker left behind."""
    for pid in _forked:
        os.kill(pid, signal.SIGTERM)
    late = time.monotonic() + STOP_S
    for pid in _forked:
        ended = os.pidfd_open(pid)
        if not select.select([ended], [], [], max(0.0, late - time.monotonic()))[0]:
            # the process was only just forked, and leads no group yet
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            os.kill(pid, signal.SIGKILL)
        os.close(ended)
        os.waitpid(pid, 0)
    _forked.clear()


def _receive_request(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Receive a request and its descriptors; return an empty request if the worker has ended."""
    with suppress(ConnectionError):
        received, descriptors, _, _ = socket.recv_fds(connection, offspring.MOST, 2)
        return received, descriptors
    return b"", []


def _send_reply(connection: socket.socket, reply: dict[str, Any]) -> None:
    with suppress(ConnectionError):  # the worker has ended meanwhile
        connection.send(json.dumps(reply).encode())


if __name__ == "__main__":
    main()
