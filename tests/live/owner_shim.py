"""A stand-in for svcctl, twistd, make, git and crontab in tests of the owner's pages.

The stand-in calls the real ``svcctl`` and ``twistd``. If ``SVC_OWNER_SOCKET`` is set, it starts
them as forks of a process that has already imported them (``prestarted.py``). A new host gets free
ports. A service that a code block starts keeps running after the end of the block. The stand-in
ends a watch command by Ctrl-C after its first output, and shortens simulations.

The stand-in itself imports none of our modules, because each command starts it as a new process.
"""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
# an owner replaces the placeholder by the host's address
PLACEHOLDER, OWN = "play.example.org", "127.0.0.1"
READY_S = 90
DAYS = "0.01"  # the number of simulated days
STARTED = re.compile(r"\bstack ready\b|^Your host runs", re.MULTILINE)


def main() -> int:
    name, words = sys.argv[1], sys.argv[2:]
    words = [OWN if word == PLACEHOLDER else word for word in words]
    if name == "make":
        root = os.environ["SVC_OWNER_ROOT"]
        return subprocess.run(["/usr/bin/make", "-n", "-C", root, *words], check=False).returncode
    if name == "crontab":
        return crontab(words)
    if name == "git":
        return 0
    if name == "twistd":
        return start([str(BIN / "twistd"), *words])
    if words[0] == "up":  # with answers to its questions, and on free ports
        made = [str(BIN / "svcctl"), "init", words[1], "--public-host", OWN]
        if not Path(words[1]).exists() and begin(made).wait() == 0:
            move(Path(words[1]))
        return start([str(BIN / "svcctl"), *words])
    if "--days" in words:
        words[words.index("--days") + 1] = DAYS
    command = [str(BIN / "svcctl"), *words]
    if "--watch" in words:
        return watch(command)
    status = begin(command).wait()
    if status == 0 and words[0] == "init":
        move(Path(words[1]))
    return status


class Fork:
    """A forked command with the part of the ``subprocess.Popen`` interface that callers use."""

    def __init__(self, path: str, request: dict[str, Any], descriptors: Sequence[int]) -> None:
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._connection.connect(path)
        self.pid: int = self._ask(request, descriptors)["pid"]
        self._ended = os.pidfd_open(self.pid)

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        socket.send_fds(self._connection, [json.dumps(request).encode()], descriptors)
        replies: dict[str, Any] = json.loads(self._connection.recv(1 << 17))
        return replies

    def poll(self) -> int | None:
        """Return a value other than None once the process has ended."""
        return 0 if select.select([self._ended], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end and return the exit status."""
        if not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a fork", timeout or 0)
        return os.waitstatus_to_exitcode(self._ask({"reap": self.pid})["status"])


def begin(
    command: list[str], out: int = 1, err: int = 2, environ: Mapping[str, str] = os.environ
) -> subprocess.Popen[bytes] | Fork:
    """Start a command in its own session, forked from a prestarted process if one is available."""
    path = os.environ.get("SVC_OWNER_SOCKET")
    if path is None:
        return subprocess.Popen(
            command, stdout=out, stderr=err, env=environ, start_new_session=True
        )
    request = {"line": command, "environ": dict(environ), "cwd": os.getcwd(), "targets": [1, 2]}
    return Fork(path, request, [out, err])


def crontab(words: list[str]) -> int:
    """Show or replace the stored crontab, as the real program does."""
    stored = Path.home() / "crontab"
    if words == ["-l"]:
        sys.stdout.write(stored.read_text() if stored.exists() else "")
        return 0 if stored.exists() else 1
    stored.write_text(sys.stdin.read())
    return 0


def start(command: list[str]) -> int:
    """Start a service and leave it running once it is ready."""
    log = Path.home() / f"{os.getpid()}.log"
    with log.open("wb") as out:
        process = begin(command, out.fileno(), out.fileno())
    (Path.home() / f"{process.pid}.pid").write_text(str(process.pid))
    deadline = time.monotonic() + READY_S
    while not STARTED.search(log.read_text(errors="replace")):
        if process.poll() is not None or time.monotonic() > deadline:
            sys.stderr.write(log.read_text(errors="replace"))
            return 1
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    return 0


def watch(command: list[str]) -> int:
    """Run a command and send it Ctrl-C after its first output."""
    shown, deliveries = os.pipe()
    process = begin(command, deliveries, environ={**os.environ, "FORCE_COLOR": "1"})
    os.close(deliveries)
    with open(shown, "rb") as out:
        out.read(64)
        os.kill(process.pid, signal.SIGINT)
        out.read()
    return process.wait(READY_S)


def move(folder: Path) -> None:
    """Give a new host other ports, in every file that names its ports."""
    tcp, udp = map(int, os.environ["SVC_OWNER_PORTS"].split(","))
    new = {61000: tcp, 61001: tcp + 1, 61002: tcp + 2, 61005: tcp + 3, 61099: tcp + 4, 443: tcp + 5}
    new |= {61010: tcp + 6, 8770: udp, 8777: udp + 7, 61020: tcp + 7, 61021: tcp + 8}
    new |= {61022: tcp + 9, 61023: tcp + 10, 61024: tcp + 11}
    for path in folder.glob("*.env"):
        text = path.read_text().replace("127.0.0.1:61000/QoS", "@")
        text = re.sub(
            r"(?<=[=:-])(\d{3,5})\b(?!\.)",
            lambda entry: str(new.get(int(entry[1]), entry[1])),
            text,
        )
        path.write_text(text.replace("@", "127.0.0.1:61000/QoS"))


if __name__ == "__main__":
    sys.exit(main())
