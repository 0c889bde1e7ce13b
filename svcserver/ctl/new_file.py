"""A file that a command makes for its owner: never over another one, and never half of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from attrs import define, field

from svcserver.kernel.disk import sync_folder
from svcserver.kernel.refusals import Conflict
from svcserver.kernel.secrets import hex_token


@define
class NewFile:
    """A file written inside a transaction, so that it is on disk before the commit.

    ``is_there``: this command has made it; only then does ``drop`` take it away again.
    """

    path: Path
    is_there: bool = field(default=False, init=False)

    def check(self) -> None:
        """Raise Conflict if something has that name."""
        if os.path.lexists(self.path):
            raise Conflict(f"{self.path} is there already; give another name")

    def put(self, value: object) -> None:
        """Write a value as JSON with mode 0600; raises Conflict if that fails."""
        part = self.path.with_name(f".{self.path.name[:100]}.{hex_token(8)}")
        try:
            _write(part, value)
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            self.is_there = True  # the name is ours from here on
            os.replace(part, self.path)
            sync_folder(self.path.parent)
        except BaseException as why:
            self.drop()
            if isinstance(why, FileExistsError):
                self.check()
            if isinstance(why, OSError):
                raise Conflict(f"{self.path} cannot be written: {why.strerror}") from why
            raise
        finally:
            part.unlink(missing_ok=True)

    def drop(self) -> None:
        """Remove the file if ``put`` made it."""
        if self.is_there:
            self.is_there = False
            self.path.unlink(missing_ok=True)


def _write(part: Path, value: object) -> None:
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump(value, out, indent=1)
        out.flush()
        os.fsync(out.fileno())
