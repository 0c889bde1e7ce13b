"""Stands for svcctl, twistd, make, git and crontab while an owner's page is pasted.

``svcctl`` and ``twistd`` are the real ones; a new host gets free ports, a service goes on behind
the block that starts it, a watch is ended by Ctrl-C after a while, and less is simulated than an
owner may wait for.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

BIN = Path(sys.executable).parent
PLACEHOLDER, OWN = "play.example.org", "127.0.0.1"  # an owner puts the own address there
READY_S = 90
DAYS = "0.01"  # to simulate
STARTED = re.compile(r"\bstack ready\b|^Your host runs", re.MULTILINE)


def main() -> int:
    name, words = sys.argv[1], sys.argv[2:]
    words = [OWN if one == PLACEHOLDER else one for one in words]
    if name == "make":
        root = os.environ["SVC_OWNER_ROOT"]
        return subprocess.run(["/usr/bin/make", "-n", "-C", root, *words], check=False).returncode
    if name == "crontab":
        return crontab(words)
    if name == "git":
        return 0
    if name == "twistd":
        return start([str(BIN / "twistd"), *words])
    if words[0] == "up":  # its questions answered, on ports of our own
        made = [str(BIN / "svcctl"), "init", words[1], "--public-host", OWN]
        if not Path(words[1]).exists() and subprocess.run(made, check=False).returncode == 0:
            move(Path(words[1]))
        return start([str(BIN / "svcctl"), *words])
    if "--days" in words:
        words[words.index("--days") + 1] = DAYS
    command = [str(BIN / "svcctl"), *words]
    if "--watch" in words:
        return watch(command)
    status = subprocess.run(command, check=False).returncode
    if status == 0 and words[0] == "init":
        move(Path(words[1]))
    return status


def crontab(words: list[str]) -> int:
    """One table, as the real one keeps it."""
    kept = Path.home() / "crontab"
    if words == ["-l"]:
        sys.stdout.write(kept.read_text() if kept.exists() else "")
        return 0 if kept.exists() else 1
    kept.write_text(sys.stdin.read())
    return 0


def start(command: list[str]) -> int:
    """Leave it running once it is ready."""
    log = Path.home() / f"{os.getpid()}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
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
    """Ctrl-C once something was shown."""
    environ = {**os.environ, "FORCE_COLOR": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environ)
    assert process.stdout is not None
    process.stdout.read(64)
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    return process.wait(READY_S)


def move(folder: Path) -> None:
    """Other ports for a new host, in every file that names them."""
    tcp, udp = map(int, os.environ["SVC_OWNER_PORTS"].split(","))
    new = {61000: tcp, 61001: tcp + 1, 61002: tcp + 2, 61005: tcp + 3, 61099: tcp + 4, 443: tcp + 5}
    new |= {61010: tcp + 6, 8770: udp, 8777: udp + 7, 61020: tcp + 7, 61021: tcp + 8}
    new |= {61022: tcp + 9, 61023: tcp + 10, 61024: tcp + 11}
    for path in folder.glob("*.env"):
        text = path.read_text().replace("127.0.0.1:61000/QoS", "@")
        text = re.sub(
            r"(?<=[=:-])(\d{3,5})\b(?!\.)", lambda one: str(new.get(int(one[1]), one[1])), text
        )
        path.write_text(text.replace("@", "127.0.0.1:61000/QoS"))


if __name__ == "__main__":
    sys.exit(main())
