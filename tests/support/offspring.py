"""Forks of a prestarted process, which start their own children as forks as well.

``svc-stack`` and some ``svcctl`` commands start our programs by ``python -m``. When such a command
is itself a fork, a helper process (the nurse) is forked beside it first. The nurse forks once for
each program start. The new process becomes a child of the command, so the command can wait for it
and signal it. The command passes its own descriptors, folder, environment and umask on to the new
process.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from twisted.internet.process import Process
from twisted.scripts import twistd

from tests.support import proclist

MOST = 1 << 17  # bytes of a request
HIGH = 64  # descriptors from this number on are unused
PR_SET_CHILD_SUBREAPER = 36
PARENTS = {"svc-stack", "demo", "up", "backup"}
MAINS = {"svcctl": "svcserver.ctl.main:main", "svc-launcher": "svcserver.launcher.main:main"}
OURS = {"svcserver.stack.child", "svcserver.ctl.main"}
Ask = Callable[[dict[str, Any], Sequence[int]], dict[str, Any]]


def ask(
    connection: socket.socket, request: dict[str, Any], descriptors: Sequence[int] = ()
) -> dict[str, Any]:
    """Send one request to the forking process and return the reply."""
    socket.send_fds(connection, [json.dumps(request).encode()], descriptors)
    reply: dict[str, Any] = json.loads(connection.recv(MOST))
    return reply


def umask() -> int:
    """Return this process's umask, which the requested program inherits."""
    result = os.umask(0o077)
    os.umask(result)
    return result


def become(request: Mapping[str, Any], descriptors: Sequence[int]) -> list[str]:
    """Apply a fork request to this process and return the requested command line."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, HIGH) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    for target, source in zip(request["targets"], high, strict=True):
        os.dup2(source, target)
        os.close(source)
    if "umask" in request:
        os.umask(request["umask"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    if "PYTHONUNBUFFERED" in request["environ"]:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    line: list[str] = request["line"]
    proclist.show(line, request["environ"])
    return line


def with_nurse(line: list[str]) -> list[str]:
    """Start a nurse for ``line`` if the command needs one, and return the command line to run.

    In the caller's process, the function returns ``line``. In each process that the nurse forks,
    the function returns as well, with the command line of that process.
    """
    while not PARENTS.isdisjoint(line):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if os.fork() != 0:
            theirs.close()
            _start_by(partial(ask, ours))
            return line
        ours.close()
        _keep_nothing()
        line = _nurse(theirs)
    return line


def run(line: list[str]) -> NoReturn:
    """Run the program of a command line in this process, then exit."""
    try:
        _run(line)
    except SystemExit as why:
        _end(why.code)


def _run(line: list[str]) -> NoReturn:
    name = Path(line[0]).name
    sys.argv, sys.orig_argv = line, [sys.executable, *line]
    if line[1:2] == ["-m"]:
        sys.argv, sys.orig_argv = line[2:], line
        name = f"{line[2]}:main"
        if line[2] == "svcserver.stack.child":
            os.execv = partial(_in_place, os.execv)
    if name == "twistd":
        sys.exit(twistd.run())
    module, _, function = MAINS.get(name, name).partition(":")
    sys.exit(getattr(import_module(module), function)())


def _end(code: object) -> NoReturn:
    """Exit without freeing memory, which would take 0.1 s."""
    status = code if isinstance(code, int) else int(code is not None)
    if status and code is not status:
        print(code, file=sys.stderr)
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as it does
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        if not stream.closed:
            try:
                stream.flush()
            except OSError:  # nobody reads the output any more
                status = 120  # the interpreter's own
    os._exit(status & 0xFF)


def _in_place(execv: Any, _: str, words: list[str]) -> NoReturn:
    os.execv = execv
    sys.argv, sys.orig_argv = words[1:], words
    sys.exit(twistd.run())


def _keep_nothing() -> None:
    """Close the inherited output, so that the reader receives end-of-file."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for entry in range(3):
        os.dup2(nothing, entry)
    os.close(nothing)


def _nurse(connection: socket.socket) -> list[str]:
    """Fork once for each request; return the requested command line in each child.

    The nurse exits when the process that sends the requests closes its socket.
    """
    while True:
        received, descriptors, _, _ = socket.recv_fds(connection, MOST, HIGH)
        if not received:
            os._exit(0)
        request = json.loads(received)
        messages, channel = os.pipe()
        between = os.fork()
        if between == 0:
            between = os.getpid()
            pid = os.fork()
            if pid != 0:
                os.write(channel, str(pid).encode())
                os._exit(0)
            while os.getppid() == between:
                os.sched_yield()
            for entry in (connection.detach(), messages, channel, *range(3)):
                os.close(entry)
            return become(request, descriptors)
        os.waitpid(between, 0)  # the child's parent is now the process that asked
        connection.send(json.dumps({"pid": int(os.read(messages, 32))}).encode())
        for entry in (messages, channel, *descriptors):
            os.close(entry)


def _start_by(nurse: Ask) -> None:
    """Make this process start our programs through the nurse, and other programs as usual."""
    prctl = ctypes.CDLL(None).prctl

    def born(
        line: Sequence[Any],
        cwd: Any,
        environ: Mapping[Any, Any] | None,
        arguments: Mapping[int, int],
    ) -> int:
        whole = os.environ if environ is None else environ
        request = {
            "line": [os.fsdecode(entry) for entry in line],
            "environ": {os.fsdecode(name): os.fsdecode(entry) for name, entry in whole.items()},
            "cwd": os.fsdecode(cwd or os.getcwd()),
            "targets": list(arguments),
            "umask": umask(),
        }
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            return int(nurse(request, list(arguments.values()))["pid"])
        finally:
            prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    _let_twisted(born)
    _let_subprocess(born)


def _ours(line: Any) -> bool:
    words = [] if isinstance(line, str | bytes) else [os.fsdecode(entry) for entry in line]
    return words[:2] == [sys.executable, "-m"] and words[2] in OURS


def _let_twisted(born: Callable[..., int]) -> None:
    fork = Process._fork

    def started(
        self: Any, path: Any, uid: Any, gid: Any, program: Any, line: Any, environ: Any, **more: Any
    ) -> None:
        if not _ours(line):
            fork(self, path, uid, gid, program, line, environ, **more)
            return
        self.pid = born(line, path, environ, more["fdmap"])
        self.status = -1

    setattr(Process, fork.__name__, started)


def _let_subprocess(born: Callable[..., int]) -> None:
    execute = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def started(
        self: Any, line: Any, program: Any, setup: Any, close: Any, stored: Any, cwd: Any,
        environ: Any, info: Any, flags: Any, shell: Any, *rest: Any,
    ) -> None:  # fmt: skip
        pipes = rest[:6]
        if not _ours(line):
            execute(
                self, line, program, setup, close, stored, cwd, environ, info, flags, shell, *rest
            )
            return
        theirs = (pipes[0], pipes[3], pipes[5])
        arguments = {
            number: number if entry == -1 else entry for number, entry in enumerate(theirs)
        }
        self.pid = born(line, cwd, environ, arguments)
        self._child_created = True
        self._close_pipe_fds(*pipes)

    subprocess.Popen._execute_child = started  # type: ignore[attr-defined]
