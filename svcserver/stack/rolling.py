"""The rolling restart on SIGHUP, and its state file for ``svcctl restart --rolling``."""

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
class StackState:
    """The state of a running stack; pid and ``started`` together identify its process."""

    pid: int
    started: int
    rolled: int
    well: bool  # True if the last rolling restart succeeded
    begun: float = 0.0  # epoch seconds; the stack may restart in the same process
    rolling: bool = False  # a rolling restart is in progress


def read_state(folder: Path) -> StackState | None:
    """Return the state of the stack that runs in ``folder``, or None if none runs."""
    try:
        data = json.parse((folder / STATE_FILE).read_bytes())
        pid, started, rolled = (int(data[name]) for name in ("pid", "started", "rolled"))
        begun, rolling = float(data.get("begun", 0.0)), bool(data.get("rolling"))
        state = StackState(pid, started, rolled, bool(data["well"]), begun, rolling)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return state if started_at(state.pid) == state.started else None


@define(eq=False, slots=False)
class Rolling(Service):
    """The service that restarts the children one after the other on SIGHUP."""

    reactor: Any
    children: Children
    folder: Path
    _ended_count: int = field(default=0, init=False)  # successful or not
    _succeeded: bool = field(default=True, init=False)
    _rolling: bool = field(default=False, init=False)
    _begun: float = field(factory=epoch, init=False)

    def startService(self) -> None:
        Service.startService(self)
        signal.signal(signal.SIGHUP, lambda *_: self.reactor.callFromThread(self.roll))
        self._write_state()

    def stopService(self) -> None:
        Service.stopService(self)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        (self.folder / STATE_FILE).unlink(missing_ok=True)

    def roll(self) -> Deferred[None]:
        """Restart the components one after the other."""
        return Deferred.fromCoroutine(self._roll())

    async def _roll(self) -> None:
        if self._rolling:
            log.warn("a rolling restart is already in progress, so the new request is ignored")
            return
        self._rolling = True
        self._write_state()
        try:
            self._succeeded = await self.children.roll()
        except Exception:
            self._succeeded = False
            log.failure("the rolling restart failed")
        finally:
            self._rolling = False
            self._ended_count += 1
        self._write_state()

    def _write_state(self) -> None:
        if not self.running:
            return
        pid = os.getpid()
        state = {
            "pid": pid,
            "started": started_at(pid) or 0,
            "rolled": self._ended_count,
            "well": self._succeeded,
            "begun": self._begun,
            "rolling": self._rolling,
        }
        path = self.folder / STATE_FILE
        temporary = path.with_suffix(".new")
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(json.dump(state))
            temporary.replace(path)
        except OSError as error:
            text = "{path} cannot be written: {why}; svcctl restart cannot find this stack"
            log.warn(text, path=str(path), why=error.strerror)
