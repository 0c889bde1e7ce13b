"""Log lines of the smaller services: always JSON, as in docs/owners/logs.md.

Information goes to standard output, warnings and errors to standard error.
"""

from __future__ import annotations

import sys
from typing import Any

from attrs import define, field
from twisted.logger import LogLevel

from svcserver.kernel import json
from svcserver.kernel.system import epoch
from svcserver.web.logs import LogLines, line_head
from svcserver.web.logwriter import Out, writers


@define
class JsonLines(LogLines):
    """A log observer; the named fields of an event become members beside ``message``."""

    as_json: bool = True
    err: Out = field(factory=lambda: sys.stderr)

    def say(self, namespace: str, message: str, fields: dict[str, Any]) -> None:
        """Write an ``info`` line directly: an event of the logger would cost more than the line."""
        if self.shows(LogLevel.info):
            line = line_head(epoch(), "info", namespace, message)
            self.keep(json.dump({**line, **fields}).decode() + "\n")

    def write_now(self, line: str) -> None:
        self.flush()
        self.err.write(line)
        self.err.flush()


def json_lines(level: str, clock: Any = None) -> JsonLines:
    """The observer of a service started by ``twistd``."""
    out, err, mine = writers()
    return JsonLines(out, level=level, clock=clock, err=err, writers=mine)
