"""The fenced blocks of README and the docs, and the ``svcctl`` commands in them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
from attrs import frozen

from svcserver.ctl.main import main

MARK = "# needs:"


@frozen
class Block:
    """One fenced code block."""

    page: str
    word: str
    text: str

    @property
    def needs(self) -> str:
        """Return the requirement that a test cannot meet, or "" if anybody may run the block."""
        first = self.text.lstrip().splitlines()[0] if self.text.strip() else ""
        return first.removeprefix(MARK).strip() if first.startswith(MARK) else ""


def blocks(path: Path) -> Iterator[Block]:
    """Return the fenced blocks of a page, including those inside list items."""
    pattern = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
    for result in pattern.finditer(path.read_text()):
        lines = [line.removeprefix(result[1]) for line in result[3].splitlines()]
        yield Block(path.name, result[2], "\n".join(lines) + "\n")


def commands(text: str) -> Iterator[list[str]]:
    """Return the arguments of every ``svcctl`` command in ``text``."""
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        for part in re.split(r"&&|\|\||;|\|", line):
            try:
                words = shlex.split(part.replace("\\$", "$"), comments=True)
            except ValueError:
                continue
            for at, word in enumerate(words):
                if word == "svcctl" or word.endswith(("/svcctl", "(command -v svcctl)")):
                    yield words[at + 1 :]


def exists(words: list[str]) -> None:
    """Fail unless svcctl has the command with these options."""
    command: click.Command = main
    rest = list(words)
    while isinstance(command, click.Group):
        assert rest, f"svcctl {' '.join(words)} names no command"
        name = rest.pop(0)
        result = command.get_command(click.Context(command), name)
        assert result is not None, f"svcctl {' '.join(words)}: no command {name}"
        command = result
    context = click.Context(command, info_name=" ".join(words))
    command.make_parser(context).parse_args(rest)
