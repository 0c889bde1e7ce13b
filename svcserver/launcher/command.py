"""The command that starts the game; the player can see and edit the command. No I/O.

Placeholders represent changing values such as the key, so the key is neither shown nor saved.
"""

import re
import shlex
import subprocess
from collections.abc import Mapping

from attrs import frozen

DOCUMENTED = (
    "{folder}/{program} -server={server} -AUTH_TYPE=exchangecode -AUTH_LOGIN=unused "
    "-AUTH_PASSWORD={key} -chat={chat}"
)
USUAL_PROGRAM = "game.exe"  # if the host's owner has not set a program
PLACEHOLDERS = ("{folder}", "{program}", "{server}", "{key}", "{chat}")
_PLACE = re.compile("|".join(map(re.escape, PLACEHOLDERS)))
LONGEST = 4096  # characters
HIDDEN = "(your key)"


class BadCommand(ValueError):
    """The error for a command that cannot be parsed; its text is the reason."""


@frozen
class StartValues:
    """The values of the placeholders in the start command."""

    folder: str
    server: str  # host:port that the game talks to
    chat: str  # ws://host:port
    program: str = USUAL_PROGRAM  # a path below the folder

    def arguments(self, command: str, runner: str, key: str) -> list[str]:
        """Return the program and its arguments, or raise BadCommand.

        If there is a ``runner``, such as ``wine``, it is the first item. Values are inserted after
        the command is split, so they cannot become additional arguments.
        """
        values = {
            "{folder}": self.folder,
            "{program}": self.program,
            "{server}": self.server,
            "{chat}": self.chat,
        }
        parts = [_filled(part, {**values, "{key}": key}) for part in split(command)]
        return [_filled(part, values) for part in split(runner)] + parts if runner else parts

    def shown(self, command: str, runner: str, platform: str) -> str:
        """Return the command line to show: quoted for ``platform``, with the key hidden."""
        parts = self.arguments(command, runner, HIDDEN)
        return subprocess.list2cmdline(parts) if platform == "win32" else shlex.join(parts)


def split(command: str) -> list[str]:
    """Split a command at blanks, respecting quotes; a backslash is an ordinary character."""
    if len(command) > LONGEST:
        raise BadCommand("it is too long")
    lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.escape, lexer.commenters = True, "", ""
    try:
        parts = list(lexer)
    except ValueError:
        raise BadCommand("a quotation mark is missing") from None
    if not parts:
        raise BadCommand("it is empty")
    return parts


def check(command: str) -> None:
    """Raise BadCommand if ``command`` could not start any program."""
    if any("\0" in part or "\n" in part for part in split(command)):
        raise BadCommand("it has a line break")


def _filled(part: str, values: Mapping[str, str]) -> str:
    """Replace all placeholders in one pass, because a value may look like a placeholder."""
    return _PLACE.sub(lambda match: values.get(match[0], match[0]), part)
