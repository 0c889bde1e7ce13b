"""The nightly backup: ``svcctl backup nightly`` as a process of its own, at BACKUP_AT."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessExitedAlready
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.kernel import backups
from svcserver.kernel.every import Every
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import comma_list, env, off_unless_1, on_unless_0, secret, whole
from svcserver.kernel.system import epoch
from svcserver.stack.children import describe
from svcserver.stack.lines import LinesAndEnd

log = Logger()
LOOK_S = 60.0
SETTLE_S = 600.0  # after the stack's start, where the night's backup was missed
OFF = "off"
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])\Z")


def time_of_day(text: str) -> time | None:
    """``04:00``, local time; None for ``off``."""
    plain = text.strip().lower()
    if plain == OFF:
        return None
    found = _TIME.match(plain)
    if found is not None:
        return time(int(found[1]), int(found[2]))
    raise ValueError("must be a time of day such as 04:00, or off")


@frozen
class BackupSettings:
    """The variables of backups, lines of ``stack.env``."""

    at: time | None = env("BACKUP_AT", time_of_day, default=time(4))
    folder: str = env("BACKUP_DIR", str.strip, default="backups")
    days: int = env("BACKUP_KEEP_DAYS", whole(1, 366), default=7)
    weeks: int = env("BACKUP_KEEP_WEEKS", whole(0, 260), default=4)
    months: int = env("BACKUP_KEEP_MONTHS", whole(0, 120), default=12)
    passphrase: Secret | None = env("BACKUP_PASSPHRASE", secret, default=None)
    recipients: tuple[str, ...] = env("BACKUP_RECIPIENTS", comma_list, default=())
    identity: str = env("BACKUP_IDENTITY", str.strip, default="")
    with_secrets: bool = env("BACKUP_SECRETS", off_unless_1, default=False)
    drill: bool = env("BACKUP_DRILL", on_unless_0, default=True)
    nice: int = env("BACKUP_NICE", whole(0, 19), default=15)


def due(now: datetime, at: time, tried: datetime | None) -> bool:
    """Whether the last moment at which a backup was to be made has passed without a try."""
    last = datetime.combine(now.date(), at)
    if last > now:
        last -= timedelta(days=1)
    return tried is None or tried < last


@define(eq=False, slots=False)
class Nightly(Service):
    """Starts the backup when it is due; one that dies before it made any is a fault, too."""

    reactor: Any
    folder: Path  # of the host's settings
    data: Path  # where the components run, and the state of the backups is kept
    at: time
    environ: Mapping[str, str]
    write: Callable[[str, str], object]
    _rounds: Every = field(init=False)
    _began: float = 0.0
    _running: Any = None
    _insist: Any = None
    _gone: Deferred[None] | None = None
    _last: datetime | None = None

    def __attrs_post_init__(self) -> None:
        self._rounds = Every(self.reactor, LOOK_S, self.look, "the look at the nightly backup")

    def startService(self) -> None:
        Service.startService(self)
        self._began = self.reactor.seconds()
        self._rounds.startService()

    def stopService(self) -> Deferred[None] | None:
        """End a backup that runs: what it has half written it removes, or the next one does."""
        Service.stopService(self)
        self._rounds.stopService()
        if self._running is None:
            return None
        self._gone = Deferred()
        self._signal("TERM")
        if self._insist is not None and self._insist.active():
            self._insist.reset(10.0)
        return self._gone

    def look(self) -> None:
        """Start the backup if it is due."""
        if self._running is not None or self.reactor.seconds() - self._began < SETTLE_S:
            return
        now, state = datetime.fromtimestamp(epoch()), backups.read(self.data)
        known = state.tried if state is not None else None
        tried = datetime.fromtimestamp(known) if known is not None else None
        tried = max(filter(None, (tried, self._last)), default=None)
        if due(now, self.at, tried):
            self._last = now  # also where it dies before it can write its file
            self._start()

    def _start(self) -> None:
        words = ["backup", "nightly", "--config", str(self.folder)]
        command = [sys.executable, "-m", "svcserver.ctl.main", *words]
        run = LinesAndEnd(self._said, self._over)
        log.info("the nightly backup begins")
        try:
            self._running = self.reactor.spawnProcess(
                run, command[0], command, env=dict(self.environ), path=str(self.folder)
            )
        except OSError as why:
            self._note(f"the nightly backup cannot be started: {why.strerror}")
            return
        self._insist = self.reactor.callLater(backups.LONGEST_S, self._signal, "KILL")

    def _said(self, line: str) -> None:
        self.write("backup", line)

    def _over(self, reason: Failure) -> None:
        self._running = None
        if self._insist is not None and self._insist.active():
            self._insist.cancel()
        if self._gone is not None:
            gone, self._gone = self._gone, None
            gone.callback(None)
            return
        state = backups.read(self.data)
        wrong = state.wrong(epoch()) if state is not None else None
        if wrong is not None:
            log.error("the nightly backup: {wrong}", wrong=wrong)
        elif reason.check(ProcessDone) is None:
            # it wrote nothing down: an error of its settings, or no memory for its start
            self._note(f"the nightly backup ended ({describe(reason)}); look at the stack's lines")

    def _note(self, fault: str) -> None:
        """Write down what the process itself could not, for alerts and the overview."""
        log.error("{fault}", fault=fault)
        try:
            known = backups.read(self.data) or backups.Backups()
            backups.write(self.data, evolve(known, fault=fault))
        except OSError as why:
            log.error("{file} cannot be written: {why}", file=backups.STATE_FILE, why=why.strerror)

    def _signal(self, name: str) -> None:
        try:
            if self._running is not None:
                self._running.signalProcess(name)
        except ProcessExitedAlready:
            self._running = None
