"""The player's own terminal: a prompt, lines that can be edited, and tab completion.

Windows has its own line editing, but no completion.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TextIO

from attrs import define, field

from svcserver.kernel.foreign_text import visible

PROMPT = "> "


class Editing(Protocol):
    """The part of the ``readline`` module that the console uses."""

    def get_line_buffer(self) -> str: ...

    def set_completer(self, function: Callable[[str, int], str | None] | None) -> None: ...

    def set_completer_delims(self, string: str) -> None: ...

    def parse_and_bind(self, string: str) -> None: ...


@define
class Console:
    """A terminal that prints lines above the line that the player is typing."""

    out: TextIO
    ask: Callable[[str], str] = input
    editing: Editing | None = None  # None: the system has no ``readline``
    _is_asking: bool = field(default=False, init=False)

    def print_lines(self, *lines: str) -> None:
        """Print lines; line breaks and control characters within a line are escaped."""
        text = "".join(f"{visible(line)}\n" for line in lines)
        if self._is_asking and self.editing is not None:
            text = f"\r\x1b[K{text}{PROMPT}{self.editing.get_line_buffer()}"
        elif self._is_asking:
            text = f"\r{text}{PROMPT}"
        self.out.write(text)
        self.out.flush()

    def lines(self, complete: Callable[[str], Sequence[str]]) -> Iterator[str]:
        """Yield the lines that the player types. This blocks, so call it in a thread."""
        if self.editing is not None:
            self.editing.set_completer(_completer(complete))
            self.editing.set_completer_delims("")  # a completion replaces the whole line
            self.editing.parse_and_bind("tab: complete")
            self.editing.parse_and_bind("bind ^I rl_complete")  # the same for libedit
        while True:
            self._is_asking = True
            try:
                line = self.ask(PROMPT)
            except EOFError:
                return
            finally:
                self._is_asking = False
            yield line


def _completer(complete: Callable[[str], Sequence[str]]) -> Callable[[str, int], str | None]:
    def completion(line: str, number: int) -> str | None:
        return dict(enumerate(complete(line))).get(number)

    return completion


def console_here() -> Console | None:
    """Return the console if the program runs in a terminal, else None."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty()):
        return None
    if sys.platform == "win32":
        return Console(sys.stdout)
    try:
        import readline
    except ImportError:
        return Console(sys.stdout)
    return Console(sys.stdout, editing=readline)


def restoring() -> Callable[[], object]:
    """Save the terminal's settings; return a function that restores them."""
    if sys.platform == "win32":
        return lambda: None
    import termios

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)
    return lambda: termios.tcsetattr(number, termios.TCSADRAIN, before)
