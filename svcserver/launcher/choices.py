"""The player's settings for one host: folder, command, runner and speed limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from svcserver.launcher import words
from svcserver.launcher.command import BadCommand, check
from svcserver.launcher.membership import Membership
from svcserver.launcher.stages import Stage

FASTEST = 2**40  # bytes a second


@frozen
class Choices:
    """The settings as the player typed them; an empty string means the default."""

    folder: str
    command: str
    runner: str
    speed_limit: int

    @classmethod
    def from_membership(cls, member: Membership) -> Choices:
        """Return the player's settings for this host."""
        record = member.record
        return cls(record.folder, record.command, record.runner, record.speed_limit)

    def with_word(self, name: str, text: str) -> Choices | None:
        """Return a copy with the setting ``name`` changed; None if the name or text is invalid."""
        if name == "limit":
            try:
                limit = round(float(text or "0") * 1_000_000)
            except (ValueError, OverflowError):
                return None
            return evolve(self, speed_limit=limit) if 0 <= limit < FASTEST else None
        changed: dict[str, Any] = {name: text}
        return evolve(self, **changed) if name in ("folder", "command", "runner") else None


def choose(member: Membership, choices: Choices, home: Path) -> str:
    """Save ``choices`` for a host and return ""; return an error text for invalid choices."""
    try:
        for text in (choices.command.strip(), choices.runner.strip()):
            if text:
                check(text)
    except BadCommand as error:
        return words.BAD_COMMAND.format(why=error)
    path = path_of(choices.folder, home)
    if choices.folder.strip() and not path.is_absolute():
        return words.WHOLE_PATH
    usual = not choices.folder.strip() or path == member.usual_folder
    folder = "" if usual else str(path)
    moved = folder != member.record.folder
    if moved and member.host.stage in (Stage.CHECKING, Stage.FETCHING):
        member.inputs.stop()
    member.change(
        folder=folder,
        command=choices.command.strip(),
        runner=choices.runner.strip(),
        speed_limit=choices.speed_limit,
    )
    if moved or member.host.stage is Stage.UNCHECKED:
        member.inputs.check(False)
    return ""


def path_of(text: str, home: Path) -> Path:
    """Return the path that the player typed or pasted; a leading ``~`` stands for ``home``."""
    text = text.strip().strip('"')
    return (home / text[2:]) if text.startswith(("~/", "~\\")) else Path(text)
