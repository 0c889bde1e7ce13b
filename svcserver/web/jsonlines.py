"""Log lines of the smaller services: JSON, ``{"t", "level", "msg", ...}``.

Information goes to standard output, warnings and errors to standard error.
"""

from __future__ import annotations

import sys
from typing import Any

from attrs import define, field
from twisted.logger import LogLevel

from svcserver.kernel import json
from svcserver.kernel.system import epoch
from svcserver.kernel.times import iso
from svcserver.web.logs import LogLines, as_line, message_of, rank
from svcserver.web.logwriter import Out, writers


@define
class JsonLines(LogLines):
    """A log observer; the named fields of an event become members beside ``msg``."""

    as_json: bool = True
    err: Out = field(factory=lambda: sys.stderr)

    def _json(self, event: dict[str, Any]) -> str:
        level = event.get("log_level", LogLevel.info)
        line = {
            "t": iso(event["log_time"]),
            "level": "error" if rank(level) > 3 else level.name,
            "msg": message_of(event),
        }
        return as_line(line, event)

    def say(self, message: str, fields: dict[str, Any]) -> None:
        """Write an ``info`` line directly: an event of the logger would cost more than the line."""
        if self.shows(LogLevel.info):
            line = {"t": iso(epoch()), "level": "info", "msg": message, **fields}
            self.keep(json.dump(line).decode() + "\n")

    def write_now(self, line: str) -> None:
        self.flush()
        self.err.write(line)
        self.err.flush()


def json_lines(level: str, clock: Any = None) -> JsonLines:
    """The observer of a service started by ``twistd``."""
    out, err, mine = writers()
    return JsonLines(out, level=level, clock=clock, err=err, writers=mine)
