"""A rolling restart on SIGHUP, and the file by which ``svcctl restart --rolling`` finds us."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from attrs import define, field, frozen
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svcserver.kernel import json
from svcserver.kernel.processes import started_at
from svcserver.kernel.system import epoch
from svcserver.stack.children import Children

log = Logger()
STATE_FILE = "stack.json"


@frozen
class Running:
    """What a running stack says of itself; ``started`` tells it from a later process."""

    pid: int
    started: int
    rolled: int
    well: bool  # how the last rolling restart ended
    begun: float = 0.0  # epoch seconds; the stack may begin again in the same process
    rolling: bool = False  # a rolling restart is under way


def read(folder: Path) -> Running | None:
    """The stack that runs in ``folder``, or None."""
    try:
        said = json.parse((folder / STATE_FILE).read_bytes())
        pid, started, rolled = (int(said[name]) for name in ("pid", "started", "rolled"))
        begun = float(said.get("begun", 0.0))
        found = Running(pid, started, rolled, bool(said["well"]), begun, bool(said.get("rolling")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if started_at(found.pid) == found.started else None


@define(eq=False, slots=False)
class Rolling(Service):
    """Restarts the children in turn when SIGHUP comes."""

    reactor: Any
    children: Children
    folder: Path
    _over: int = field(default=0, init=False)  # how many have ended, whichever way
    _well: bool = field(default=True, init=False)
    _rolling: bool = field(default=False, init=False)
    _begun: float = field(factory=epoch, init=False)

    def startService(self) -> None:
        Service.startService(self)
        signal.signal(signal.SIGHUP, self._hang_up)
        self._tell()

    def stopService(self) -> None:
        Service.stopService(self)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        (self.folder / STATE_FILE).unlink(missing_ok=True)

    def _hang_up(self, *_: Any) -> None:
        self.reactor.callFromThread(self.roll)

    def roll(self) -> Deferred[None]:
        """Restart the metagame's processes one after the other."""
        return Deferred.fromCoroutine(self._roll())

    async def _roll(self) -> None:
        if self._rolling:
            log.warn("a rolling restart is under way: another was asked for, and is not begun")
            return
        self._rolling = True
        self._tell()
        try:
            self._well = await self.children.roll()
        except Exception:
            self._well = False
            log.failure("the rolling restart failed")
        finally:
            self._rolling = False
            self._over += 1
        self._tell()

    def _tell(self) -> None:
        if not self.running:
            return
        mine = os.getpid()
        said = {
            "pid": mine,
            "started": started_at(mine) or 0,
            "rolled": self._over,
            "well": self._well,
            "begun": self._begun,
            "rolling": self._rolling,
        }
        path = self.folder / STATE_FILE
        fresh = path.with_suffix(".new")
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(json.dump(said))
            fresh.replace(path)
        except OSError as why:
            text = "{path} cannot be written: {why}; svcctl restart cannot find this stack"
            log.warn(text, path=str(path), why=why.strerror)
