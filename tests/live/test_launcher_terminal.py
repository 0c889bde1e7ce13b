"""The launcher in a real terminal: its prompt, tab completion, and the terminal's state afterwards.

A real process is needed because ``readline`` changes the settings of a pseudo-terminal.
"""

import os
import select
import signal
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import define, field

from tests.live.players_host import LAUNCHER
from tests.support.processes import eventually

pytestmark = pytest.mark.live


@define
class TypedAt:
    """A launcher in a pseudo-terminal."""

    home: Path
    printed: str = field(default="", init=False)
    master: int = field(init=False)
    slave: int = field(init=False)
    process: subprocess.Popen[bytes] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.master, self.slave = os.openpty()
        self.process = subprocess.Popen(
            [LAUNCHER, "--key-file", "--no-links", "--no-browser"],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "SVC_LAUNCHER_HOME": str(self.home),
                "TERM": "xterm",
            },
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
        )

    @property
    def echoes(self) -> bool:
        """True if the terminal itself shows what is typed, as a shell expects it to."""
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)

    def type(self, keys: str) -> None:
        self.printed = ""
        os.write(self.master, keys.encode())

    def shows(self, text: str) -> None:
        """Wait until the launcher has printed ``text`` since the last keystrokes."""
        eventually(lambda: text in self._read())

    def _read(self) -> str:
        while select.select([self.master], [], [], 0)[0]:
            self.printed += os.read(self.master, 65_536).decode()
        return self.printed

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.mark.parametrize(
    "end",
    [lambda tty: tty.type("quit\n"), lambda tty: tty.process.send_signal(signal.SIGINT)],
    ids=["quit", "Ctrl-C"],
)
def test_terminal_completes_words_and_is_left_as_it_was(
    tmp_path: Path, end: Callable[[TypedAt], None]
) -> None:
    tty = TypedAt(tmp_path)
    try:
        assert tty.echoes
        tty.shows("Type help for a list of commands.\r\n")
        tty.shows("> ")
        eventually(lambda: not tty.echoes)  # readline shows what is typed
        tty.type("hel\tpl\t\n")
        tty.shows("help play")
        tty.shows("Start the game.\r\n")
        tty.shows("> ")
        tty.type("dance\n")
        tty.shows('Unknown command "dance". Type help for a list.\r\n')
        tty.shows("> ")
        end(tty)
        assert tty.process.wait(60) == 0
        assert tty.echoes
    finally:
        tty.close()
