"""The command that starts the game: documented, shown, editable. Pure.

Placeholders stand for what changes, so that the command can be shown and kept without the key.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping

from attrs import frozen

DOCUMENTED = (
    "{folder}/{program} -server={server} -AUTH_TYPE=exchangecode -AUTH_LOGIN=unused "
    "-AUTH_PASSWORD={key} -chat={chat}"
)
USUAL_PROGRAM = "game.exe"  # where the owner of the host has named none
PLACEHOLDERS = ("{folder}", "{program}", "{server}", "{key}", "{chat}")
_PLACE = re.compile("|".join(map(re.escape, PLACEHOLDERS)))
LONGEST = 4096  # characters
HIDDEN = "(your key)"


class BadCommand(ValueError):
    """The command cannot be read; says why."""


@frozen
class Start:
    """What the placeholders of a start command stand for."""

    folder: str
    server: str  # host:port that the game talks to
    chat: str  # ws://host:port
    program: str = USUAL_PROGRAM  # a path below the folder

    def arguments(self, command: str, runner: str, key: str) -> list[str]:
        """The program and its arguments; raises BadCommand.

        ``runner`` is put in front, such as ``wine``. Values are filled in after the command has
        been split, so nothing in them can become another argument.
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
        """The same for the player's eyes, without the key, quoted as ``platform`` does it."""
        parts = self.arguments(command, runner, HIDDEN)
        return subprocess.list2cmdline(parts) if platform == "win32" else shlex.join(parts)


def split(command: str) -> list[str]:
    """The parts of a command, quotes understood; a backslash is a plain character, as in paths."""
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
    """Raise BadCommand where ``command`` cannot start anything."""
    if any("\0" in part or "\n" in part for part in split(command)):
        raise BadCommand("it has a line break")


def _filled(part: str, values: Mapping[str, str]) -> str:
    """``part`` with its placeholders replaced, once: a value may look like another one."""
    return _PLACE.sub(lambda found: values.get(found[0], found[0]), part)
