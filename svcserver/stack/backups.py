"""Runs ``svcctl backup nightly`` in its own process, at BACKUP_AT or when the owner asks."""

import sys
from collections.abc import Callable, Mapping
from datetime import datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from attrs import define, evolve, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessExitedAlready
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.kernel import backups
from svcserver.kernel.every import Every
from svcserver.kernel.settings import BadSetting
from svcserver.kernel.system import epoch
from svcserver.stack.children import describe
from svcserver.stack.lines import LinesAndEnd

log = Logger()
CHECK_S = 60.0
REQUESTS_S = 2.0
SETTLE_S = 600.0  # after the stack's start, if the night's backup was missed


def is_due(now: datetime, at: time, tried: datetime | None) -> bool:
    """Return whether the daily time ``at`` has passed since the last attempt at a backup."""
    last = datetime.combine(now.date(), at)
    if last > now:
        last -= timedelta(days=1)
    return tried is None or tried < last


@define(eq=False, slots=False)
class Nightly(Service):
    """The service that starts backups at the scheduled time and on request."""

    reactor: Any
    folder: Path  # the folder of the host's settings
    data: Path  # the folder where the components run; holds the state of the backups
    schedule: Callable[[], time | None]
    environ: Mapping[str, str]
    write: Callable[[str, str], object]
    _rounds: Every = field(init=False)
    _requests: Every = field(init=False)
    _at: time | None = None
    _started_at: float = 0.0
    _running: Any = None
    _kill_timer: Any = None
    _stopping: Deferred[None] | None = None
    _last_try: datetime | None = None

    def __attrs_post_init__(self) -> None:
        self._rounds = Every(self.reactor, CHECK_S, self.check, "the check for the nightly backup")
        what = "the check for requested backups"
        self._requests = Every(self.reactor, REQUESTS_S, self.check_request, what)

    def startService(self) -> None:
        Service.startService(self)
        self._started_at = self.reactor.seconds()
        self._rounds.startService()
        self._requests.startService()

    def stopService(self) -> Deferred[None] | None:
        """Stop a running backup; its partial files are removed at once or by the next backup."""
        Service.stopService(self)
        self._rounds.stopService()
        self._requests.stopService()
        if self._running is None:
            return None
        self._stopping = Deferred()
        self._signal("TERM")
        if self._kill_timer is not None and self._kill_timer.active():
            self._kill_timer.reset(10.0)
        return self._stopping

    def check(self) -> None:
        """Start the backup if it is due."""
        if self._running is not None:
            return
        self._read_schedule()
        if self._at is None or self.reactor.seconds() - self._started_at < SETTLE_S:
            return
        now, state = datetime.fromtimestamp(epoch()), backups.read(self.data)
        recorded = state.tried if state is not None else None
        tried = datetime.fromtimestamp(recorded) if recorded is not None else None
        tried = max(filter(None, (tried, self._last_try)), default=None)
        if is_due(now, self._at, tried):
            self._last_try = now  # even if the backup crashes before it can write its state
            self._start()

    def check_request(self) -> None:
        """Start a backup if the owner has requested one, unless a backup is already running."""
        if backups.take_request(self.data, epoch()) and self._running is None:
            self._start()

    def _read_schedule(self) -> None:
        try:
            at = self.schedule()
        except BadSetting:
            return  # the schedule stays, and the next backup reports the bad setting
        if at == self._at:
            return
        self._at = at
        try:
            backups.expect(self.data, epoch(), wanted=at is not None)
        except OSError as error:
            self._log_unwritten(error)

    def _start(self) -> None:
        words = ["backup", "nightly", "--config", str(self.folder)]
        command = [sys.executable, "-m", "svcserver.ctl.main", *words]
        run = LinesAndEnd(partial(self.write, "backup"), self._on_end)
        log.info("a backup begins")
        try:
            self._running = self.reactor.spawnProcess(
                run, command[0], command, env=dict(self.environ), path=str(self.folder)
            )
        except OSError as error:
            self._record_fault(f"the nightly backup cannot be started: {error.strerror}")
            return
        self._kill_timer = self.reactor.callLater(backups.LONGEST_S, self._signal, "KILL")

    def _on_end(self, reason: Failure) -> None:
        self._running = None
        if self._kill_timer is not None and self._kill_timer.active():
            self._kill_timer.cancel()
        if self._stopping is not None:
            stopping, self._stopping = self._stopping, None
            stopping.callback(None)
            return
        state = backups.read(self.data)
        wrong = state.wrong(epoch()) if state is not None else None
        if wrong is not None:
            log.error("the nightly backup: {wrong}", wrong=wrong)
        elif reason.check(ProcessDone) is None:
            # the backup recorded nothing: a bad setting, or too little memory to start
            self._record_fault(f"the nightly backup ended ({describe(reason)}). See its log lines.")

    def _record_fault(self, fault: str) -> None:
        """Record, for alerts and the dashboard, a fault that the backup process did not record."""
        log.error("{fault}", fault=fault)
        try:
            state = backups.read(self.data) or backups.Backups()
            backups.write(self.data, evolve(state, fault=fault))
        except OSError as error:
            self._log_unwritten(error)

    def _log_unwritten(self, error: OSError) -> None:
        log.error("{file} cannot be written: {why}", file=backups.STATE_FILE, why=error.strerror)

    def _signal(self, name: str) -> None:
        try:
            if self._running is not None:
                self._running.signalProcess(name)
        except ProcessExitedAlready:
            self._running = None
