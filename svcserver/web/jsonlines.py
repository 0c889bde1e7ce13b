"""Log lines of the smaller services: always JSON, as in docs/owners/logs.md.

Information goes to standard output, warnings and errors to standard error.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

from attrs import define, field
from twisted.logger import LogLevel

from svcserver.kernel.system import epoch
from svcserver.kernel.times import iso
from svcserver.web.logs import LogLines
from svcserver.web.logwriter import Out, writers


@lru_cache(maxsize=2)  # a busy service writes many lines in a millisecond
def _iso(ms: int) -> str:
    return iso(ms / 1000)


@define
class JsonLines(LogLines):
    """A log observer; the named fields of an event become members beside ``message``."""

    as_json: bool = True
    err: Out = field(factory=lambda: sys.stderr)

    def say(self, namespace: str, message: str, members: str) -> None:
        """Write an ``info`` line directly: an event of the logger would cost more than the line.

        ``message`` and ``namespace`` are plain words of ours, ``members`` is JSON text: what would
        stand between the braces. A dictionary of them, merged and dumped, took three times as long.
        """
        if self.shows(LogLevel.info):
            time = _iso(round(epoch() * 1000))
            self.keep(
                f'{{"time":"{time}","level":"info","namespace":"{namespace}",'
                f'"message":"{message}",{members}}}\n'
            )

    def write_now(self, line: str) -> None:
        self.flush()
        self.err.write(line)
        self.err.flush()


def json_lines(level: str, clock: Any = None) -> JsonLines:
    """The observer of a service started by ``twistd``."""
    out, err, mine = writers()
    return JsonLines(out, level=level, clock=clock, err=err, writers=mine)
