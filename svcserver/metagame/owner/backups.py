"""The dashboard's backup routes, for the owner only; requests through a proxy are refused."""

import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Annotated, BinaryIO, ClassVar, TypedDict

from attrs import define, field, frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.kernel import backups, host_state
from svcserver.kernel.backup_settings import (
    OFF,
    STACK_FILE,
    BackupSettings,
    read_settings,
    time_of_day,
)
from svcserver.kernel.backups import Backup, Backups
from svcserver.kernel.envfile import change
from svcserver.kernel.refusals import Conflict, Malformed, Missing, Unauthenticated, Unavailable
from svcserver.kernel.settings import BadSetting, with_env_file
from svcserver.kernel.shapes import Moment, pascal_case, spelled, text, whole
from svcserver.kernel.times import iso
from svcserver.metagame.access.acting import staff_of
from svcserver.metagame.accounts.audit import Act, AuditEntry, Trace
from svcserver.metagame.accounts.wire import Reason
from svcserver.metagame.once import Again
from svcserver.metagame.owner.signin import CODE, CODE_HEADER, SignInActs, check_key_sent, is_proven
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.files import Transfer, Transfers
from svcserver.web.ranges import Span
from svcserver.web.routes import NO_STORE, Answer, Media

log = Logger()


@spelled(pascal_case)
@frozen
class BackupRequest:
    """The request to make a backup now."""

    reason: Reason = ""


@spelled(pascal_case)
@frozen
class ScheduleRequest:
    """The local time of the nightly backup (or "off"), and how many backups are kept.

    ``Mark`` is copied from the reply with the schedule. If the schedule has changed since that
    reply, the request is refused.
    """

    at: Annotated[str, text(3, 5)]
    days: Annotated[int, whole(1, 366)]
    weeks: Annotated[int, whole(0, 260)]
    months: Annotated[int, whole(0, 120)]
    mark: Annotated[str, text(0, 64)] = ""
    reason: Reason = ""


@spelled(pascal_case)
@frozen
class DownloadRequest:
    """The name of the backup to download."""

    name: Annotated[str, text(1, 255)]
    reason: Reason = ""


class StoredBackup(TypedDict):
    """A stored backup.

    ``provenAt`` is the time of its successful test restore, or null. ``fault`` says what is wrong
    with the backup, or is null. ``restore`` is the command that restores the backup.
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
    """A backup in progress; ``step`` is "make", "test" or "check". It is empty at the start."""

    since: Moment
    step: str


class ScheduleSources(TypedDict):
    """The source of each value: the default, the file, or svc-stack's environment."""

    at: str
    days: str
    weeks: str
    months: str


class ScheduleReply(TypedDict):
    """The settings of nightly backups; ``at`` is a local time, or "off".

    ``mark`` changes whenever ``at``, ``days``, ``weeks`` or ``months`` changes.
    """

    at: str
    days: int
    weeks: int
    months: int
    drill: bool
    encrypted: bool
    folder: str
    sources: ScheduleSources
    mark: str


class BackupsReply(TypedDict):
    """The stored backups, newest first.

    ``stack`` says whether svc-stack makes backups. ``notTaken`` is the time of a request that
    svc-stack has not handled within 15 seconds, or null. ``wrong`` is the fault to fix, or null.
    ``schedule`` is null if the settings cannot be read; ``badSettings`` then says why.
    """

    stack: bool
    requested: bool
    notTaken: Moment | None
    running: BackupRunReply | None
    wrong: str | None
    schedule: ScheduleReply | None
    badSettings: str | None
    backups: list[StoredBackup]


NO_STACK = (
    "No svc-stack runs this host, so the dashboard cannot start a backup. Run svcctl backup now, "
    "or under systemd: systemctl start svc-backup"
)
FIXED = (
    "{name} is set in the environment of svc-stack, which takes precedence over stack.env. "
    "Change it there, and restart svc-stack."
)
FEWER = (
    "With these numbers the next backup deletes older ones. Enter the key that you sign in with "
    "to confirm that."
)
NO_MORE = "This turns off nightly backups. Enter the key that you sign in with to confirm that."
VARIABLES = {
    "at": "BACKUP_AT",
    "days": "BACKUP_KEEP_DAYS",
    "weeks": "BACKUP_KEEP_WEEKS",
    "months": "BACKUP_KEEP_MONTHS",
}
NO_FOLDER = "the metagame does not know the host's folder. Start it with --env-file."


@define(eq=False)
class BackupActs:
    """The owner's operations on backups.

    ``folder`` is the services' working folder, which has the state of the backups. ``config``
    returns the folder of the host's settings, or None if the folder is unknown.
    """

    record: Callable[[AuditEntry, Act[None]], Awaitable[None]]  # adds a row to the audit log
    with_file: Callable[[AuditEntry, Act[None]], Awaitable[None]]  # adds a row before and one after
    config: Callable[[], Path | None]
    has_stack: Callable[[], bool]
    started_at: float
    wall_clock: Callable[[], float]
    transfers: Transfers = field(factory=Transfers)
    folder: Path = field(factory=Path.cwd)

    def state(self) -> Backups:
        return backups.read(self.folder) or Backups(since=self.started_at)

    def describe_backups(self) -> BackupsReply:
        """Return the stored backups, the schedule, and the backup in progress, if any."""
        state, now = self.state(), self.wall_clock()
        settings, fault = None, None
        try:
            settings = self._settings()
        except (BadSetting, Conflict) as error:
            fault = str(error)
        since, request_at = state.running_since, backups.requested_at(self.folder)
        waits = request_at is not None and abs(now - request_at) <= backups.TAKEN_S
        is_over = waits or since is not None or (request_at or 0.0) < (state.tried or 0.0)
        return {
            "stack": self.has_stack(),
            "requested": waits,
            "notTaken": None if request_at is None or is_over else iso(request_at),
            "running": None if since is None else {"since": iso(since), "step": state.step},
            "wrong": state.wrong(now),
            "schedule": None if settings is None else self._schedule(settings),
            "badSettings": fault,
            "backups": [self._shown(backup, settings) for backup in state.kept],
        }

    async def request(self, by: str, reason: str = "") -> None:
        """Request a backup from svc-stack; raises Conflict or Unavailable."""

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

    async def schedule(self, by: str, wanted: ScheduleRequest, *, proven: bool) -> None:
        """Change schedule and retention; raises Conflict, Malformed or Unavailable.

        ``proven`` is true if the request comes from svcctl or has the account key. If
        ``proven`` is false, turning off nightly backups or keeping fewer backups raises
        Unauthenticated.
        """

        before: dict[str, str | int] | None = None

        def act(_: Connection, trace: Trace) -> None:
            nonlocal before
            after = _wanted_values(wanted)
            if before is None:  # otherwise the file is written: the transaction runs again
                before = self._put_schedule(wanted.mark, after, proven=proven)
            trace.before, trace.after = before, after

        await self.with_file(AuditEntry(by, "backup schedule", "", wanted.reason), act)

    def _put_schedule(
        self, mark: str, after: Mapping[str, str | int], *, proven: bool
    ) -> dict[str, str | int]:
        """Write the schedule to the file; return the previous values."""
        try:
            settings = self._settings()
        except BadSetting as error:
            raise Conflict(str(error), code="bad_settings") from error
        before, overridden = _values(settings), self._environment()
        if mark and mark != _mark(settings):
            text = "The schedule has changed since you opened it. Open it again."
            raise Conflict(text, code="changed")
        lines = {}
        for name, value in after.items():
            variable = VARIABLES[name]
            if variable not in overridden:
                lines[variable] = str(value)
            elif value != before[name]:
                raise Conflict(FIXED.format(name=variable), code="environment")
        if not proven and after["at"] == OFF != before["at"]:
            raise Unauthenticated(NO_MORE, code="key_wanted")
        if not proven and any(_is_fewer(after[name], before[name]) for name in before):
            raise Unauthenticated(FEWER, code="key_wanted")
        path = self._config() / STACK_FILE
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
            change(path, lines)
        except (OSError, UnicodeDecodeError) as why:
            raise _unwritable(STACK_FILE, why) from why
        return before

    async def download(self, by: str, name: str, reason: str = "") -> BinaryIO:
        """Return the opened file of a backup; raises Missing or Conflict."""
        opened: list[BinaryIO] = []

        def act(_: Connection, __: Trace) -> None:
            if not opened:  # otherwise it is open: the transaction runs again
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

    def _environment(self) -> Mapping[str, str | None]:
        """Return the settings in svc-stack's environment, which override its env file.

        The value of a secret is None.
        """
        state = host_state.read(self.folder, self.wall_clock())
        return {} if state is None else state.environment

    def _settings(self) -> BackupSettings:
        """Return the settings in force, except the secrets in svc-stack's environment."""
        overridden = self._environment()
        shown = {name: value for name, value in overridden.items() if value is not None}
        return read_settings(self._config(), shown)

    def _schedule(self, settings: BackupSettings) -> ScheduleReply:
        file, overridden = self._config() / STACK_FILE, self._environment()
        lines = with_env_file(str(file) if file.is_file() else None, {})

        def source(name: str) -> str:
            variable = VARIABLES[name]
            if variable in overridden:
                return "environment"
            return "file" if lines.get(variable, "").strip() else "default"

        return {
            "at": _time(settings),
            "days": settings.days,
            "weeks": settings.weeks,
            "months": settings.months,
            "drill": settings.drill,
            "encrypted": bool(settings.recipients)
            or settings.passphrase is not None
            or overridden.get("BACKUP_PASSPHRASE", "") is None,
            "folder": str((self.folder / settings.folder).absolute()),
            "sources": {
                "at": source("at"),
                "days": source("days"),
                "weeks": source("weeks"),
                "months": source("months"),
            },
            "mark": _mark(settings),
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


def _values(settings: BackupSettings) -> dict[str, str | int]:
    """Return the values that the page can change, under the keys of ``VARIABLES``."""
    counts = {name: getattr(settings, name) for name in ("days", "weeks", "months")}
    return {"at": _time(settings), **counts}


def _wanted_values(wanted: ScheduleRequest) -> dict[str, str | int]:
    try:
        at = time_of_day(wanted.at)
    except ValueError as error:
        raise Malformed(f"The time {error}.", code="bad_request") from error
    word = OFF if at is None else f"{at:%H:%M}"
    return {"at": word, "days": wanted.days, "weeks": wanted.weeks, "months": wanted.months}


def _is_fewer(after: str | int, before: str | int) -> bool:
    return isinstance(after, int) and isinstance(before, int) and after < before


def _mark(settings: BackupSettings) -> str:
    return " ".join(map(str, _values(settings).values()))


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
        """Return the stored backups, the schedule, and the backup in progress, if any."""
        return Answer(200, self.acts.describe_backups(), NO_STORE)

    @routes.row("POST", "/svc/api/DashboardBackup", body=BackupRequest, reply=BackupsReply)
    async def request(self, call: Call[BackupRequest]) -> Answer:
        """Start a backup; the list of backups shows its progress."""
        await self.acts.request(staff_of(call).name, call.body.reason)
        return Answer(200, self.acts.describe_backups(), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardBackupSchedule",
        body=ScheduleRequest,
        reply=BackupsReply,
        headers=CODE,
        signs_in=True,
    )
    async def schedule(self, call: Call[ScheduleRequest]) -> Answer:
        """Change when backups are made and how many are kept.

        A request that turns nightly backups off, or keeps fewer backups, needs the sign-in key, and
        a code if the account has a second factor.
        """
        proven = await is_proven(call, self.ways)
        await self.acts.schedule(staff_of(call).name, call.body, proven=proven)
        return Answer(200, self.acts.describe_backups(), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/DashboardBackupDownload",
        body=DownloadRequest,
        reply=Media((BYTES,)),
        headers=CODE,
        signs_in=True,
    )
    async def download(self, call: Call[DownloadRequest]) -> Answer:
        """Download a backup.

        The request needs the sign-in key, and a code if the account has a second factor.
        """
        check_key_sent(call, "send the key that you sign in with")
        await self.ways.check(call.player, call.request.header(CODE_HEADER))
        by, name = staff_of(call).name, call.body.name
        file = await self.acts.download(by, name, call.body.reason)
        size = os.fstat(file.fileno()).st_size

        def ended(sent: int, complete: bool) -> None:
            what = "downloaded" if complete else f"downloaded in part ({sent} bytes)"
            log.info("{by}: backup {name} {what}", by=by, name=name, what=what)

        def shrank() -> None:
            log.error(
                "the download of the backup {name} ended early, because the file became shorter",
                name=name,
            )

        whole_file = Span(0, size, size)
        transfer = Transfer(file, whole_file, ended, shrank, self.acts.transfers)
        headers = {
            "Content-Type": BYTES,
            "Content-Length": str(size),
            "X-Content-Type-Options": "nosniff",
        }
        return Answer(200, transfer, {**NO_STORE, **headers}, BYTES)
