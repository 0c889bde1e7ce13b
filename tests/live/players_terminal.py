"""A launcher in a terminal, without a browser, to which the live tests type commands."""

import os
import queue
import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import define, field

from tests.live.players_host import LAUNCHER
from tests.support.processes import free_port


@define
class Player:
    """The launcher's process and its output; ``command`` starts the launcher."""

    home: Path
    command: Sequence[str] = (LAUNCHER,)
    more: Mapping[str, str] = field(factory=dict)  # further environment variables
    flags: Sequence[str] = ("--key-file", "--no-links")
    process: subprocess.Popen[str] = field(init=False)
    lines: queue.Queue[str] = field(factory=queue.Queue, init=False)
    history: list[str] = field(factory=list, init=False)
    _reader: threading.Thread = field(init=False)

    def __attrs_post_init__(self) -> None:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "SVC_LAUNCHER_HOME": str(self.home),
            "SVC_RELAY_PORT": str(free_port()),
            "PYTHONUNBUFFERED": "1",
            **self.more,
        }
        self.process = subprocess.Popen(
            [*self.command, *self.flags, "--no-browser"],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def say(self, line: str) -> None:
        """Type a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hears(self, wanted: str, patience_s: float = 120.0) -> None:
        """Wait until the launcher prints a line with this text."""
        until = time.monotonic() + patience_s
        line = ""
        while wanted not in line:
            try:
                line = self.lines.get(timeout=max(0.1, until - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{wanted!r} was not said after {self.history[-5:]}") from None
            self.history.append(line)

    def most_memory(self) -> int:
        """Return the launcher's peak resident memory in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        result = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert result is not None
        return int(result[1]) * 1024

    def kill(self) -> None:
        """End the launcher with SIGKILL, as close to a power cut as a process can get."""
        self.process.kill()
        self.end()

    def end(self) -> None:
        """Wait until the launcher exits, and read its remaining output."""
        self.process.wait(60)
        self._reader.join(60)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue  # a line that the killed launcher has not read
