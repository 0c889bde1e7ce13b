"""The output of commands: plain text for people, ``--json`` for programs, one-line errors.

Commands print only through this module, because it escapes foreign text (``kernel.foreign_text``).
Elsewhere in ``ctl``, ruff forbids ``print`` and ``click.echo``.
"""

import shlex
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

import click
from attrs import frozen

from svcserver.kernel import json
from svcserver.kernel.foreign_text import cell, shown


class Failed(click.ClickException):
    """The error when a command fails; its message is one line that includes the fix.

    The exit status is 1.
    """

    def show(self, file: Any = None) -> None:
        warn(" ".join(self.message.split()))


class HalfDone(Failed):
    """The error of a command that may have made part of a change before it failed.

    ``outcome`` describes that part in the audit log, for example "upgrade failed: the backup's data
    is in place".
    """

    def __init__(self, message: str, outcome: str) -> None:
        super().__init__(message)
        self.outcome = outcome


def fail(line: str) -> NoReturn:
    """End the command with a one-line error message: raise Failed."""
    raise Failed(line)


def echo(line: str, *, err: bool = False) -> None:
    """Print one line."""
    click.echo(shown(line), err=err)


def warn(line: str) -> None:
    """Print a warning."""
    echo(f"svcctl: {line}", err=True)


def prompt(question: str, **options: Any) -> Any:
    """Ask the user for a value, as ``click.prompt`` does."""
    return click.prompt(shown(question), err=True, **options)


def confirm(question: str) -> None:
    """Raise Failed unless the user answers yes."""
    click.confirm(shown(question), abort=True, err=True)


def usage_error(error: click.UsageError) -> click.UsageError:
    """Return the usage error with its message on one line and made safe to show.

    The message may quote an argument, which may contain control characters.
    """
    return click.UsageError(shown(" ".join(error.format_message().split())), error.ctx)


def show_defect(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Print the traceback of an unexpected error, with foreign text escaped."""
    for line in "".join(traceback.format_exception(kind, error, trace)).split("\n"):
        echo(line, err=True)


def program(name: str) -> str:
    """Return the shell command for our program ``name``.

    The command is ``name`` if PATH leads to the program of this installation, else the program's
    path.
    """
    beside = Path(sys.executable).parent / name
    first = shutil.which(name)
    is_ours = first is not None and Path(first).absolute() == beside
    return name if is_ours or not beside.exists() else shlex.quote(str(beside))


def config_of(folder: Path) -> str:
    """Return the command-line option that selects the host in this folder."""
    return f"--config {shlex.quote(str(folder))}"


@frozen
class Out:
    """The output of a command: lines for people, or one JSON object with ``--json``."""

    as_json: bool = False

    def text(self, *lines: str) -> None:
        """Print lines for people; print nothing with ``--json``."""
        if not self.as_json:
            for line in lines:
                echo(line)

    def data(self, value: Any) -> None:
        """Print ``value`` as JSON with ``--json``; print nothing without ``--json``."""
        if self.as_json:
            sys.stdout.write(json.dump_ascii(value) + "\n")
            sys.stdout.flush()  # the reader needs the line now, although the command runs on

    def table(self, heads: list[str], rows: list[list[str]]) -> None:
        """Print a table with aligned columns; print nothing with ``--json``."""
        if self.as_json:
            return
        lines = [[cell(text) for text in row] for row in [heads, *rows]]
        widths = [max(len(row[at]) for row in lines) for at in range(len(heads))]
        for row in lines:
            click.echo("  ".join(map(str.ljust, row, widths)).rstrip())


def counted(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 party`` or ``2 parties``."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
