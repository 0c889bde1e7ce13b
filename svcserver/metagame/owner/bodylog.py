"""The body log (LOG_BODIES) of requests and replies, for studying the game's protocol.

The log observes the metagame's HTTP server. For each request to a route marked ``body_log``, it
writes one line with a JSON object, without tokens and account keys. Until the next restart, it
writes at most BODY_LOG_PER_PATH lines for each route. Spec: 1 §4 convention 6.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svcserver.kernel import json
from svcserver.kernel.redaction import REDACTED, redact
from svcserver.kernel.times import iso
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.front import FinishedRequest
from svcserver.web.routes import logged_path

log = Logger()

MAX_BODY = 64 * 1024  # logged bytes per body; more would block the reactor too long
MOST = 16 * 1024 * 1024  # bytes; then the file is renamed to ``.1`` and a new one started
_OPEN = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
# a name and its string; every quantifier is possessive, so that no body makes the search slow
_NAMED = re.compile(r'"([\w\\]{1,120}+)"(\s*+:\s*+)("(?:[^"\\]++|\\.)*(?:"|\\?\Z))', re.DOTALL)
_SENSITIVE = re.compile(r"token|jwt|uuk|secret|password|credential|apikey|api_key", re.IGNORECASE)


@define
class BodyLog:
    """The file of requests and replies; after a write error, a warning is logged and writing stops.

    ``per_path`` is the maximum number of records for each route; 0 means no maximum.
    """

    path: Path
    per_path: int
    wall_clock: Callable[[], float]
    on: bool = True
    _written: Counter[str] = field(factory=Counter, init=False)

    @classmethod
    def for_log_file(cls, settings: MetagameSettings, wall_clock: Callable[[], float]) -> BodyLog:
        """Return the body log configured by BODY_LOG_FILE and BODY_LOG_PER_PATH."""
        return cls(Path(settings.body_log_file), settings.body_log_per_path, wall_clock)

    def check(self) -> BodyLog:
        """Check at start-up that the file can be written."""
        self._append(b"")
        return self

    def __call__(self, done: FinishedRequest) -> None:
        row = done.row
        if not self.on or row is None or not row.body_log:
            return
        if self.per_path and self._written[row.name] >= self.per_path:
            return
        self._written[row.name] += 1
        record = {
            "t": iso(self.wall_clock()),
            "method": done.request.method,
            "path": logged_path(done.request.path, row),
            "status": done.status,
            "gs": int(done.caller.game_server),
            "account": done.caller.account,
            "request": shown(done.request.body),
            "reply": shown(None if done.answer is None else done.answer.body),
        }
        self._append(json.dump_ascii(record).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        try:
            # reopened each time, so that the file may be rotated
            with os.fdopen(os.open(self.path, _OPEN, 0o600), "ab") as file:
                file.write(line)
                full = os.fstat(file.fileno()).st_size >= MOST
            if full:
                with suppress(FileNotFoundError):  # another worker was first
                    self.path.replace(self.path.with_name(self.path.name + ".1"))
        except OSError as why:
            self.on = False
            log.warn(
                "BODY_LOG_FILE {path} cannot be written: {why}. Body logging is off",
                path=str(self.path),
                why=why.strerror,
            )


def shown(body: Any) -> str:
    """Return a body as text, truncated to ``MAX_BODY`` and with secrets removed."""
    return redact(_NAMED.sub(_unless_sensitive, _text(body)))[:MAX_BODY]


def _unless_sensitive(match: re.Match[str]) -> str:
    name, colon, string = _spelled_out(f'"{match[1]}"'), match[2], match[3]
    value = f'"{REDACTED}"' if _SENSITIVE.search(name) else _spelled_out(string)
    return f"{name}{colon}{value}"


def _spelled_out(string: str) -> str:
    """Return a JSON string with its escapes decoded, because an escape could hide a secret."""
    if "\\" in string:
        with suppress(json.BadJson, TypeError, ValueError):
            return json.dump(json.parse_deep(f"[{string}]")).decode()[1:-1]
    return string


def _text(body: Any) -> str:
    if body is None:
        return ""
    raw = body if isinstance(body, bytes) else json.dump(body)
    if len(raw) <= MAX_BODY:
        with suppress(json.BadJson, TypeError, ValueError):
            raw = json.dump(json.parse(raw))  # re-encoded: no escape may hide a secret
    return raw[:MAX_BODY].decode("utf-8", "replace")
