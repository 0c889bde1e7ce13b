"""FLIGHT_RECORDER_DIR: records which kind of request came when, for a simulation of the evening.

An observer of the front door. One JSON object a line: when, who (a word that stands for the
account until the next start), the row, the status, how long it took. No body, no address, no name
and no parameter of a path is kept. ``svcctl simulate --from`` makes a script of it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from attrs import define, field
from twisted.logger import Logger

from svcserver.kernel import json
from svcserver.kernel.system import token_hex
from svcserver.web.front import FinishedRequest

log = Logger()

OLDER = ".1"  # at the end of the name of the older half
UNKNOWN = "unknown"  # the row of a path that there is none for
WHO = 12  # letters of the word for an account
_OPEN = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)


@define
class FlightRecorder:
    """Appends to ``path``; when that fails it warns and switches itself off.

    When the file has half of ``most`` bytes it becomes the older half, in place of the one before.
    """

    path: Path
    most: int
    wall_clock: Callable[[], float]
    on: bool = True
    _key: bytes = field(factory=lambda: bytes.fromhex(token_hex(16)), init=False, repr=False)
    _handle: int = field(default=-1, init=False)
    _size: int = field(default=0, init=False)

    def check(self) -> FlightRecorder:
        """Check at the start that the file can be written."""
        self._append(b"")
        return self

    def __call__(self, done: FinishedRequest) -> None:
        """Keep one line of an answered request."""
        if not self.on:
            return
        # a row's name has nothing of the caller's, where an unknown path may name an account
        route = done.row.name if done.row is not None else UNKNOWN
        account = getattr(done.caller, "account", None)
        record = {
            "t": round(self.wall_clock(), 3),
            "who": self._word_for(str(account)) if account else "",
            "route": route,
            "status": 0 if done.aborted else done.status,
            "ms": round(done.seconds * 1000, 1),
        }
        self._append(json.dump(record) + b"\n")

    def _word_for(self, account: str) -> str:
        return hashlib.blake2s(account.encode(), key=self._key).hexdigest()[:WHO]

    def _append(self, line: bytes) -> None:
        try:
            if self._handle >= 0 and self._size + len(line) > self.most // 2:
                os.close(self._handle)
                self._handle = -1
                self.path.replace(self.path.with_name(self.path.name + OLDER))
            if self._handle < 0:
                self._handle = os.open(self.path, _OPEN, 0o600)
                os.fchmod(self._handle, 0o600)
                self._size = os.fstat(self._handle).st_size
            self._size += os.write(self._handle, line)
        except OSError as why:
            self.on = False
            log.warn(
                "FLIGHT_RECORDER_DIR: {path} cannot be written: {why}; nothing is recorded",
                path=str(self.path),
                why=why.strerror,
            )
