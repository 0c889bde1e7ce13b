"""Log lines of the services around the edge: always JSON, ``{"t", "level", "msg", ...}``.

Information goes to standard output, warnings and errors to standard error.
"""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from attrs import define
from twisted.logger import LogLevel

from svcserver.kernel import json
from svcserver.kernel.times import iso
from svcserver.web.logs import LogLines, _rank, _text, _trace

_PRIVATE = ("isError", "why", "format", "time", "system")
_PLAIN = (str, int, float, bool, type(None))


@define
class JsonLines(LogLines):
    """An observer; the named fields of an event stand beside its message."""

    err: TextIO = sys.stderr

    def __call__(self, event: dict[str, Any]) -> None:
        """Every event but Twisted's note of each connection it opens."""
        if event.get("log_namespace") != "twisted.internet.protocol.Factory":
            LogLines.__call__(self, event)

    def _json(self, event: dict[str, Any]) -> str:
        level = event.get("log_level", LogLevel.info)
        line: dict[str, Any] = {
            "t": iso(event["log_time"]),
            "level": "error" if _rank(level) > 3 else level.name,
            "msg": _text(event),
        }
        for name, value in event.items():
            if name not in line and name not in _PRIVATE and not name.startswith("log_"):
                line[name] = value if isinstance(value, _PLAIN) else str(value)
        if event.get("log_failure") is not None:
            line["traceback"] = _trace(event)
        return json.dump(line).decode() + "\n"

    def say(self, message: str, fields: dict[str, Any]) -> None:
        """An ``info`` line of plain fields, past the logger, whose event costs more than it."""
        if self.shows(LogLevel.info):
            line = {"t": iso(time.time()), "level": "info", "msg": message, **fields}
            self.keep(json.dump(line).decode() + "\n")

    def flush(self) -> None:
        """Write what waits, each line to its stream."""
        waiting, self._waiting = self._waiting, []
        grave = [line for line in waiting if _is_grave(line)]
        self._waiting = [line for line in waiting if not _is_grave(line)]
        super().flush()
        if grave:
            self.err.write("".join(grave))
            self.err.flush()


def _is_grave(line: str) -> bool:
    return '"level":"warn"' in line[:60] or '"level":"error"' in line[:60]


def json_lines(level: str, clock: Any = None) -> JsonLines:
    """The observer of a service started by ``twistd``."""
    return JsonLines(sys.stdout, as_json=True, level=level, clock=clock, err=sys.stderr)
