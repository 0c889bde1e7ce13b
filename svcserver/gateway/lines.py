"""The gateway's log: one JSON object a line, warnings and errors on standard error.

Spec: sheet gateway, "Log".
"""

from __future__ import annotations

import sys
from typing import Any, TextIO

from attrs import define, field
from twisted.logger import LogLevel

from svcserver.kernel import json
from svcserver.kernel.times import iso
from svcserver.web.logs import LogLines, _text, _trace

_PRIVATE = ("log_", "isError", "why", "format")
_PLAIN = frozenset([str, int, float, bool])


@define
class EdgeLines(LogLines):
    """The one observer of gateway and relay."""

    errors: TextIO = field(factory=lambda: sys.stderr, kw_only=True)

    def __call__(self, event: dict[str, Any]) -> None:
        """Warnings and errors go to the other stream, at once."""
        if event.get("log_level", LogLevel.info) in (LogLevel.debug, LogLevel.info):
            super().__call__(event)
            return
        self.flush()
        ordinary, self.out = self.out, self.errors
        try:
            super().__call__(event)
        finally:
            self.out = ordinary

    def _json(self, event: dict[str, Any]) -> str:
        fields: dict[str, Any] = {
            "t": iso(event["log_time"]),
            "level": event.get("log_level", LogLevel.info).name,
            "msg": _text(event),
        }
        for name, value in event.items():
            if not name.startswith(_PRIVATE) and name not in fields:
                fields[name] = value if type(value) in _PLAIN else str(value)
        if event.get("log_failure") is not None:
            fields["traceback"] = _trace(event)
        return json.dump(fields).decode() + "\n"


def edge_lines(level: str, clock: Any) -> EdgeLines:
    """The observer of a service started by ``twistd``."""
    return EdgeLines(sys.stdout, as_json=True, level=level, clock=clock)
