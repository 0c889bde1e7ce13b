"""Services and ``svcctl`` as processes of their own that need not import everything first.

One process a run has imported the services, and forks for each that a test starts: what the
test gets has its own pid, memory, signals, folder, environment and descriptors, a second of
work earlier. What it does not have is its own words in ``/proc/PID/cmdline`` and ``environ``;
who looks there starts the program itself.

The reactor is not among what is imported: a fork may not share one.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from attrs import define, field

REACTOR = "twisted.internet.reactor"
SERVICES = tuple(
    f"{one}.service"
    for one in ("metagame", "deploy", "content", "gateway", "allowlist", "relay", "stack")
)
MOST = 1 << 20  # bytes of a request
ROOT = Path(__file__).resolve().parents[2]


@define(eq=False)
class Prestarted:
    """What ``subprocess.Popen`` has of it."""

    pid: int
    args: list[str]
    _parent: Parent
    _ended: int = field(init=False)  # a descriptor that can be read when it has ended
    returncode: int | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._ended = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """Its exit status, or None while it runs."""
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, as soon as it has one."""
        status = self._status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def _status(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
            said = self._parent.ask({"reap": self.pid})
            self.returncode = os.waitstatus_to_exitcode(said["status"])
            os.close(self._ended)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing once it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Parent:
    """The process that forks, seen from the test; it ends with the test's."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=ROOT,
                env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            )

    def end(self) -> None:
        """Let it end, as it does when nobody can ask any more."""
        self._ours.close()
        self._process.wait(20)

    def ask(self, wish: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        """One request, one reply."""
        socket.send_fds(self._ours, [json.dumps(wish).encode()], descriptors)
        said: dict[str, Any] = json.loads(self._ours.recv(MOST))
        return said


def start(
    words: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    out: int,
    err: int | None = None,
    program: str = "twistd",
) -> Prestarted:
    """``twistd``, ``svcctl`` or a function (``tests.x:main``) with these words.

    ``err`` is ``out`` where it is not given.
    """
    parent = _parent()
    line = [str(Path(sys.executable).with_name(program)), *words]
    wish = {"line": line, "environ": dict(environ), "cwd": str(cwd)}
    return Prestarted(parent.ask(wish, [out, out if err is None else err])["pid"], line, parent)


@lru_cache(maxsize=1)
def _parent() -> Parent:
    made = Parent()
    atexit.register(made.end)
    return made


def main() -> None:
    """Fork on request until the test's process has ended; whoever is forked runs the program."""
    sys.modules[REACTOR] = ModuleType(REACTOR)  # so that nobody installs one by an import
    for name in (*SERVICES, "metagame.chat_ports", "web.options", "ctl.main"):
        import_module(f"svcserver.{name}")
    programs = {
        "twistd": import_module("twisted.scripts.twistd").run,
        "svcctl": import_module("svcserver.ctl.main").main,
    }
    line = _serve(socket.socket(fileno=int(sys.argv[1])))
    if line is None:
        return
    del sys.modules[REACTOR]
    vars(sys.modules["twisted.internet"]).pop("reactor", None)
    sys.argv = line
    name = Path(line[0]).name
    module, _, function = name.partition(":")
    sys.exit(programs[name]() if name in programs else getattr(import_module(module), function)())


def _serve(wishes: socket.socket) -> list[str] | None:
    """The command line of a fork, in the fork; None in the end."""
    while True:
        said, descriptors, _, _ = socket.recv_fds(wishes, MOST, 2)
        if not said:
            return None
        wish = json.loads(said)
        if "reap" in wish:
            wishes.send(json.dumps({"status": os.waitpid(wish["reap"], 0)[1]}).encode())
            continue
        pid = os.fork()
        if pid == 0:
            wishes.close()
            _become(wish, *descriptors)
            line: list[str] = wish["line"]
            return line
        for one in descriptors:
            os.close(one)
        wishes.send(json.dumps({"pid": pid}).encode())


def _become(wish: dict[str, Any], out: int, err: int) -> None:
    os.setsid()
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    os.chdir(wish["cwd"])
    os.environ.clear()
    os.environ.update(wish["environ"])
    time.tzset()


if __name__ == "__main__":
    main()
