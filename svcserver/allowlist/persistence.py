"""The state file and the audit log, both with mode 0600."""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from svcserver.allowlist.entries import OpenAddress
from svcserver.kernel import json
from svcserver.kernel.redaction import printable
from svcserver.kernel.times import iso

log = Logger()

MAX_STATE = 1024 * 1024  # maximum bytes of a state file
MAX_AUDIT = 16 * 1024 * 1024  # bytes; then the log is renamed to ``.1``
UNAUTHORIZED_EVERY_S = 60.0
_SHOWN = 60  # characters of refused input


@define
class StateFile:
    """The file of admitted addresses, replaced atomically."""

    path: Path

    def save(self, entries: Sequence[OpenAddress], now: float) -> None:
        """Save the entries at ``now`` (epoch seconds); a disk error is only logged."""
        rows = [{"ip": entry.ip, "expiresAt": round(entry.expires_at * 1000)} for entry in entries]
        text = json.dump({"savedAt": iso(now), "entries": rows})
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            fresh.unlink(missing_ok=True)
            with os.fdopen(os.open(fresh, _CREATE | os.O_EXCL, 0o600), "wb") as file:
                file.write(text)
            fresh.replace(self.path)
        except OSError as why:
            log.error("the state file {path} cannot be written: {why}", path=self.path, why=why)

    def load(self) -> list[OpenAddress]:
        """Return the saved entries, or none if the file is missing or invalid.

        An invalid file is logged.
        """
        try:
            if self.path.stat().st_size > MAX_STATE:
                raise json.BadJson("the file is too large")
            value = json.parse(self.path.read_bytes())
            rows = value["entries"]
            return [entry for entry in map(_entry, rows) if entry is not None]
        except FileNotFoundError:
            return []
        except (OSError, json.BadJson, KeyError, TypeError) as why:
            log.warn(
                "the state file {path} is ignored, because it is invalid: {why}",
                path=self.path,
                why=repr(why),
            )
            return []


_CREATE = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


def _entry(row: Any) -> OpenAddress | None:
    match row:
        case {"ip": str(ip), "expiresAt": int(until) | float(until)} if until is not True:
            return OpenAddress(ip, until / 1000)
    return None


@define
class AddressLog:
    """The audit log of addresses and firewall changes, one JSON object per line."""

    path: Path
    wall_clock: Callable[[], float]
    _unauthorized_at: float | None = field(default=None, init=False)

    def check(self) -> None:
        """Raise OSError if the file is not writable."""
        os.close(self._open())

    def write(self, event: str, **fields: Any) -> None:
        """Append one line; a disk error is only logged."""
        line = (
            json.dump_ascii({"t": iso(self.wall_clock()), "event": event, **fields}).encode()
            + b"\n"
        )
        try:
            self._rotate()
            with os.fdopen(self._open(), "wb") as file:
                file.write(line)
        except OSError as why:
            log.error(
                "the audit log {path} cannot be written: {why}; "
                "this event is not recorded: {event}",
                path=self.path,
                why=why,
                event=event,
            )

    def refused(self, reason: str, value: Any) -> None:
        """Record a refused address; ``value`` is truncated and made printable."""
        text = value if isinstance(value, str) else type(value).__name__
        self.write("refused", reason=reason, input=printable(text, _SHOWN))

    def unauthorized(self) -> None:
        """Record a request with a wrong secret, at most once a minute."""
        now = self.wall_clock()
        last = self._unauthorized_at
        if last is None or not 0 <= now - last < UNAUTHORIZED_EVERY_S:
            self._unauthorized_at = now
            self.write("unauthorized")

    def _open(self) -> int:
        return os.open(self.path, _CREATE | os.O_APPEND, 0o600)

    def _rotate(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self.path.stat().st_size >= MAX_AUDIT:
                self.path.replace(self.path.with_name(self.path.name + ".1"))
