"""A runner for ``svcctl`` commands in the test process."""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attrs import frozen
from click.testing import CliRunner
from sqlalchemy import Connection

from svcserver.ctl.database import existing, transaction, url_of
from svcserver.ctl.host import find
from svcserver.ctl.main import main


@frozen
class Ran:
    """The result of a command."""

    status: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """Return the command's parsed ``--json`` output."""
        return json.loads(self.out)

    @property
    def line(self) -> str:
        """Return the command's one-line error message."""
        [line] = self.err.splitlines()
        return line


def svcctl(*words: object) -> Ran:
    """Run the command; exceptions propagate to the test."""
    ran = CliRunner().invoke(main, [str(word) for word in words])
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return Ran(ran.exit_code, ran.stdout, ran.stderr)


def nowhere(test: Any) -> Path:
    """Return an unused path that is removed after ``test``, unlike trial's mktemp."""
    return Path(test.enterContext(TemporaryDirectory())) / "folder"


def new_host(folder: Path) -> Path:
    ran = svcctl("init", folder, "--public-host", "203.0.113.10", "--owner", "Olga")
    assert ran.status == 0, ran.err
    return folder


def database_of(folder: Path) -> AbstractContextManager[Connection]:
    """Yield a transaction on the host's database."""
    return transaction(existing(url_of(find(str(folder), None))))
