"""The dashboard's routes about backups, for the owner and direct callers only."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, BinaryIO, ClassVar, TypedDict

from attrs import define, field, frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.kernel import backups
from svcserver.kernel.backup_settings import (
    OFF,
    STACK_FILE,
    BackupSettings,
    read_settings,
    time_of_day,
)
from svcserver.kernel.backups import Backup, Backups
from svcserver.kernel.envfile import change
from svcserver.kernel.refusals import Conflict, Malformed, Missing, Unavailable
from svcserver.kernel.settings import BadSetting
from svcserver.kernel.shapes import Moment, pascal_case, spelled, text, whole
from svcserver.kernel.times import iso
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.accounts.audit import Act, AuditEntry, Trace
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.once import Again
from svcserver.metagame.owner.signin import CODE, CODE_HEADER, SignInActs, check_key_sent
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.files import Transfer, Transfers
from svcserver.web.ranges import Span
from svcserver.web.routes import NO_STORE, Answer, Media

log = Logger()


@spelled(pascal_case)
@frozen
class BackupWish:
    """The request to make a backup now."""

    reason: Reason = ""


@spelled(pascal_case)
@frozen
class ScheduleWish:
    """The local time of the nightly backup (the word off: never), and how many are kept."""

    at: Annotated[str, text(3, 5)]
    days: Annotated[int, whole(1, 366)]
    weeks: Annotated[int, whole(0, 260)]
    months: Annotated[int, whole(0, 120)]
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class DownloadWish:
    """The name of the backup to download."""

    name: Annotated[str, text(1, 255)]
    reason: Reason = ""


class StoredBackup(TypedDict):
    """A stored backup.

    ``provenAt`` is the time of its successful test restore, or null. ``fault`` says why a test or
    the file is bad. ``restore`` is the command that restores it.
    """

    name: str
    madeAt: Moment
    bytes: int
    encrypted: bool
    secrets: bool
    provenAt: Moment | None
    fault: str | None
    restore: str


class BackupRunReply(TypedDict):
    """A backup in progress; ``step`` is make, test or check, or empty at the start."""

    since: Moment
    step: str


class ScheduleReply(TypedDict):
    """The settings of nightly backups; ``at`` is a local time, or the word off."""

    at: str
    days: int
    weeks: int
    months: int
    drill: bool
    encrypted: bool
    folder: str


class BackupsReply(TypedDict):
    """The stored backups, newest first.

    ``stack`` says whether svc-stack makes them. ``wrong`` is the fault to fix, or null.
    ``schedule`` is null if the settings cannot be read; ``badSettings`` then says why.
    """

    stack: bool
    requested: bool
    running: BackupRunReply | None
    wrong: str | None
    schedule: ScheduleReply | None
    badSettings: str | None
    backups: list[StoredBackup]


NO_STACK = (
    "No svc-stack runs this host, so the dashboard cannot start a backup. Run svcctl backup now, "
    "or under systemd: systemctl start svc-backup"
)
NO_FOLDER = "the metagame does not know the host's folder. Start it with --env-file."


@define(eq=False)
class BackupActs:
    """The owner's operations on backups.

    ``folder`` is the services' working folder, with the state of the backups. ``config`` returns
    the folder of the host's settings, or None if it is unknown.
    """

    record: Callable[[AuditEntry, Act[None]], Awaitable[None]]  # adds a row to the audit log
    config: Callable[[], Path | None]
    has_stack: Callable[[], bool]
    started_at: float
    wall_clock: Callable[[], float]
    transfers: Transfers = field(factory=Transfers)
    folder: Path = field(factory=Path.cwd)

    def state(self) -> Backups:
        """Return the state of the backups."""
        return backups.read(self.folder) or Backups(since=self.started_at)

    def show(self) -> BackupsReply:
        """Return the stored backups, the run in progress and the schedule."""
        state, now = self.state(), self.wall_clock()
        settings, fault = None, None
        try:
            settings = self._settings()
        except (BadSetting, Conflict) as error:
            fault = str(error)
        since = state.running_since
        return {
            "stack": self.has_stack(),
            "requested": backups.is_requested(self.folder, now),
            "running": None if since is None else {"since": iso(since), "step": state.step},
            "wrong": state.wrong(now),
            "schedule": None if settings is None else self._schedule(settings),
            "badSettings": fault,
            "backups": [self._shown(backup, settings) for backup in state.kept],
        }

    async def request(self, by: str, reason: str = "") -> None:
        """Request a backup from the stack; raises Conflict or Unavailable."""

        def act(_: Connection, __: Trace) -> None:
            if not self.has_stack():
                raise Conflict(NO_STACK, code="no_stack")
            if self.state().running_since is not None:
                raise Conflict("A backup is in progress already.", code="running")
            try:  # in the transaction, so that the audit row has the result; a repeat does no harm
                backups.request(self.folder, self.wall_clock())
            except OSError as why:
                raise _unwritable(backups.REQUEST_FILE, why) from why

        await self.record(AuditEntry(by, "request backup", "", reason), act)

    async def schedule(self, by: str, wanted: ScheduleWish) -> None:
        """Change schedule and retention; raises Conflict, Malformed or Unavailable."""

        def act(_: Connection, trace: Trace) -> None:
            try:
                at = time_of_day(wanted.at)
            except ValueError as error:
                raise Malformed(f"The time {error}.", code="bad_request") from error
            try:
                before = self._settings()
            except BadSetting as error:
                raise Conflict(str(error), code="bad_settings") from error
            trace.before = {
                "at": _time(before),
                "days": before.days,
                "weeks": before.weeks,
                "months": before.months,
            }
            counts = {"days": wanted.days, "weeks": wanted.weeks, "months": wanted.months}
            word = OFF if at is None else f"{at:%H:%M}"
            lines = {"BACKUP_AT": word}
            lines |= {f"BACKUP_KEEP_{name.upper()}": str(count) for name, count in counts.items()}
            path = self._config() / STACK_FILE
            try:  # the same lines if the transaction runs again
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
                change(path, lines)
            except (OSError, UnicodeDecodeError) as why:
                raise _unwritable(STACK_FILE, why) from why
            trace.after = {"at": word, **counts}

        await self.record(AuditEntry(by, "backup schedule", "", wanted.reason), act)

    async def download(self, by: str, name: str, reason: str = "") -> BinaryIO:
        """Return the opened file of a backup; raises Missing or Conflict."""
        opened: list[BinaryIO] = []

        def act(_: Connection, __: Trace) -> None:
            if not opened:  # else the transaction runs again
                opened.append(self._open(name))

        await self.record(AuditEntry(by, "download backup", name, reason), act)
        return opened[0]

    def _open(self, name: str) -> BinaryIO:
        for backup in self.state().kept:
            if Path(backup.file).name == name:
                try:
                    return Path(backup.file).open("rb")
                except OSError as why:
                    text = f"The backup cannot be read: {why.strerror}."
                    raise Conflict(text, code="unreadable") from why
        raise Missing("There is no such backup.", code="not_found")

    def _config(self) -> Path:
        config = self.config()
        if config is None:
            raise Conflict(NO_FOLDER, code="no_folder")
        return config.absolute()

    def _settings(self) -> BackupSettings:
        return read_settings(self._config(), {})

    def _schedule(self, settings: BackupSettings) -> ScheduleReply:
        return {
            "at": _time(settings),
            "days": settings.days,
            "weeks": settings.weeks,
            "months": settings.months,
            "drill": settings.drill,
            "encrypted": bool(settings.recipients) or settings.passphrase is not None,
            "folder": str((self.folder / settings.folder).absolute()),
        }

    def _shown(self, backup: Backup, settings: BackupSettings | None) -> StoredBackup:
        return {
            "name": Path(backup.file).name,
            "madeAt": iso(backup.made),
            "bytes": backup.bytes,
            "encrypted": backup.encrypted,
            "secrets": backup.secrets,
            "provenAt": None if backup.proven is None else iso(backup.proven),
            "fault": backup.fault,
            "restore": self._restore(backup, settings),
        }

    def _restore(self, backup: Backup, settings: BackupSettings | None) -> str:
        words = ["svcctl", "backup", "restore", backup.file, "--stop"]
        config = self.config()
        if config is not None:
            words += ["--config", str(config.absolute())]
        command = shlex.join(words)
        if backup.encrypted and settings is not None and settings.recipients:
            command += "" if settings.identity else " --identity KEY-FILE"
        return command


def _time(settings: BackupSettings) -> str:
    return OFF if settings.at is None else f"{settings.at:%H:%M}"


def _unwritable(name: str, why: OSError | UnicodeDecodeError) -> Unavailable:
    reason = why.strerror if isinstance(why, OSError) else "it is not UTF-8 text"
    return Unavailable(f"{name} cannot be written: {reason}", code="disk")


BYTES = "application/octet-stream"


@frozen
class BackupRoutes:
    """The routes that list, request, schedule and download backups."""

    routes: ClassVar[Routes] = Routes(
        worded, access=Access.ADMIN_KEY, again=Again.NEVER, bad_json=BAD_JSON
    )
    acts: BackupActs
    ways: SignInActs

    @routes.row("GET", "/svc/api/DashboardBackups", reply=BackupsReply, quiet=True)
    async def listed(self, call: Call) -> Answer:
        """List the stored backups with the schedule and the run in progress."""
        return Answer(200, self.acts.show(), NO_STORE)

    @routes.row("POST", "/svc/api/DashboardBackup", body=BackupWish, reply=BackupsReply)
    async def request(self, call: Call[BackupWish]) -> Answer:
        """Make a backup now; the list shows its progress."""
        await self.acts.request(staff_of(call).name, call.body.reason)
        return Answer(200, self.acts.show(), NO_STORE)

    @routes.row("POST", "/svc/api/DashboardBackupSchedule", body=ScheduleWish, reply=BackupsReply)
    async def schedule(self, call: Call[ScheduleWish]) -> Answer:
        """Change when backups are made and how many are kept."""
        await self.acts.schedule(staff_of(call).name, call.body)
        return Answer(200, self.acts.show(), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardBackupDownload",
        body=DownloadWish,
        reply=Media((BYTES,)),
        headers=CODE,
        signs_in=True,
    )
    async def download(self, call: Call[DownloadWish]) -> Answer:
        """Download a backup. The request needs the key, and the code of a second factor."""
        check_key_sent(call, "send the key that you sign in with")
        await self.ways.check(call.player, call.request.header(CODE_HEADER))
        by, name = staff_of(call).name, call.body.name
        file = await self.acts.download(by, name, call.body.reason)
        size = os.fstat(file.fileno()).st_size

        def ended(sent: int, complete: bool) -> None:
            what = "downloaded" if complete else f"downloaded in part ({sent} bytes)"
            log.info("{by}: backup {name} {what}", by=by, name=name, what=what)

        def shrank() -> None:
            log.error("the backup {name} has become shorter during its download", name=name)

        whole_file = Span(0, size, size)
        transfer = Transfer(file, whole_file, ended, shrank, self.acts.transfers)
        headers = {
            "Content-Type": BYTES,
            "Content-Length": str(size),
            "X-Content-Type-Options": "nosniff",
        }
        return Answer(200, transfer, {**NO_STORE, **headers}, BYTES)
