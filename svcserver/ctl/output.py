"""The output of commands: plain text for people, ``--json`` for machines, one line on failure."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

import click
from attrs import frozen

from svcserver.kernel import json


class Failed(click.ClickException):
    """A command failed; the message is one line with the cure, the exit status 1."""

    def show(self, file: Any = None) -> None:
        click.echo(f"svcctl: {' '.join(self.message.split())}", err=True)


class HalfDone(Failed):
    """A command failed when part of its act was done, or may have been.

    ``outcome`` says which in the audit log: "upgrade failed: the backup's data is in place".
    """

    def __init__(self, message: str, outcome: str) -> None:
        super().__init__(message)
        self.outcome = outcome


def fail(line: str) -> NoReturn:
    """End the command with one line."""
    raise Failed(line)


def program(name: str) -> str:
    """What to type for one of our programs: its name where PATH finds ours, else its path."""
    beside = Path(sys.executable).parent / name
    found = shutil.which(name)
    ours = found is not None and Path(found).absolute() == beside
    return name if ours or not beside.exists() else shlex.quote(str(beside))


def config_of(folder: Path) -> str:
    """What to type for a command about the host in this folder."""
    return f"--config {shlex.quote(str(folder))}"


@frozen
class Out:
    """What a command prints: lines for people, or with ``--json`` one object."""

    as_json: bool = False

    def say(self, *lines: str) -> None:
        """Print lines for people; nothing with ``--json``."""
        if not self.as_json:
            for line in lines:
                click.echo(line)

    def data(self, value: Any) -> None:
        """Print ``value`` as JSON, only with ``--json``."""
        if self.as_json:
            sys.stdout.write(json.dump(value).decode() + "\n")
            sys.stdout.flush()  # a command may go on running, and its reader waits

    def table(self, heads: list[str], rows: list[list[str]]) -> None:
        """Print aligned columns; nothing with ``--json``."""
        if self.as_json:
            return
        widths = [max(len(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
        for row in [heads, *rows]:
            click.echo(
                "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            )
