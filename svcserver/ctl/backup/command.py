"""The command ``svcctl backup``: make, list, test and restore backups of the whole host."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import TypeVar

import click
from attrs import evolve, frozen

from svcserver.ctl import database
from svcserver.ctl.backup import archive
from svcserver.ctl.backup.making import NAME, STAMP, Wanted, make, remembered
from svcserver.ctl.backup.proving import Proof, prove
from svcserver.ctl.backup.restoring import into_folder, into_place
from svcserver.ctl.backup.sealing import BackupLock, is_closed
from svcserver.ctl.database_commands import copy_database
from svcserver.ctl.host import Host, as_owner_of, host_command
from svcserver.ctl.host_creation import whole_path
from svcserver.ctl.noting import noted
from svcserver.ctl.output import Failed, Out, fail, prompt
from svcserver.ctl.stopping import EndedBySignal, stoppable
from svcserver.kernel import backups, host_state
from svcserver.kernel.backup_settings import STACK_FILE, read_settings
from svcserver.kernel.backups import Backup, Backups, BackupStep
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import BadSetting, load, with_env_file
from svcserver.stack.service import StackSettings
from svcserver.stack.workers import WORKER_FILE

TRIES, PAUSE_S = 20, 0.05  # readers hold the lock only briefly


class BackupRunning(Exception):
    """The error when another process is already making a backup of this host."""


def known(data: Path) -> Backups:
    """Return the stored state of the host's backups."""
    return backups.read(data) or Backups()


def put(data: Path, state: Backups) -> None:
    """Store the state of the host's backups; raises Failed."""
    try:
        backups.write(data, state)
    except OSError as why:
        fail(f"{data / backups.STATE_FILE} cannot be written: {why.strerror}")


@contextmanager
def run(data: Path, moment: float) -> Iterator[None]:
    """Mark a backup as running during the ``with`` block; raises BackupRunning if one runs already.

    The mark remains after a crash or an unexpected error.
    """
    with ExitStack() as held:
        _take(data, held)
        held.enter_context(stoppable())
        put(data, evolve(known(data), begun=moment))
        try:
            yield
        except (Failed, EndedBySignal, KeyboardInterrupt):
            _over(data)
            raise
        _over(data)


def _over(data: Path) -> None:
    put(data, evolve(known(data), begun=None, step=""))


def _take(data: Path, held: ExitStack) -> None:
    for _ in range(TRIES):
        with ExitStack() as tried:
            try:
                free = tried.enter_context(backups.running(data))
            except OSError as why:
                fail(f"{data / backups.RUN_FILE} cannot be written: {why.strerror}")
            if free:
                held.enter_context(tried.pop_all())
                return
        Event().wait(PAUSE_S)
    raise BackupRunning


T = TypeVar("T")


@frozen
class BackupRetention:
    """The numbers of days, weeks (from Monday) and months for which backups are kept.

    The newest backup of each of these days, weeks and months is kept.
    """

    days: int = 7
    weeks: int = 4
    months: int = 12

    def select_dates(self, made: Sequence[datetime]) -> set[datetime]:
        """Return the dates in ``made`` whose backups are kept; the newest backup is always kept."""
        newest_first = sorted(set(made), reverse=True)
        return {
            *newest_first[:1],
            *_newest_of_each(newest_first, lambda date: date.date(), self.days),
            *_newest_of_each(newest_first, lambda date: date.isocalendar()[:2], self.weeks),
            *_newest_of_each(newest_first, lambda date: (date.year, date.month), self.months),
        }


def _newest_of_each(
    newest_first: Sequence[datetime], span: Callable[[datetime], object], count: int
) -> list[datetime]:
    newest: dict[object, datetime] = {}
    for date in newest_first:
        newest.setdefault(span(date), date)
    return list(newest.values())[:count]


@click.group("backup")
def backup() -> None:
    """Make, list, test and restore backups."""


def wanted_of(
    host: Host, identity: Path | None = None, environ: Mapping[str, str] | None = None
) -> Wanted:
    """Return the settings for this host's backups; raises Failed.

    Variables in ``environ`` override ``stack.env``. If ``environ`` is None, the variables in the
    environment of the running svc-stack are used. If this command's environment also has one of
    these variables, the command's value is used.
    """
    folder, data = host.need_folder("metagame.env"), _data_of(host, environ or {})
    if environ is None:
        published = _published(data)
        environ = {name: os.environ.get(name, value or "") for name, value in published.items()}
    try:
        settings = read_settings(folder, environ)
    except BadSetting as why:
        fail(f"{folder / STACK_FILE}: {why}")
    if identity is not None:
        settings = evolve(settings, identity=str(identity.absolute()))
    return Wanted(host, folder, data, (data / settings.folder).absolute(), settings)


def _data_of(host: Host, environ: Mapping[str, str]) -> Path:
    """Return the folder with the state of the host's backups; raises Failed."""
    folder = host.need_folder("metagame.env")
    own = folder / STACK_FILE
    try:
        stack = load(StackSettings, with_env_file(str(own) if own.is_file() else None, environ))[0]
    except BadSetting as why:
        fail(f"{own}: {why}")
    return Path(stack.data_dir or folder).absolute()


def _published(data: Path) -> Mapping[str, str | None]:
    """Return the variables with which the running svc-stack overrides ``stack.env``."""
    state = host_state.read(data, time.time())
    return {} if state is None else state.environment


@host_command(backup, "now", reason=True)
@click.option(
    "--prove",
    "is_proven",
    is_flag=True,
    help="Also test the backup: restore it into a temporary host and simulate players.",
)
@click.option(
    "--database",
    "copy",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Copy only the database into FILE, for svcctl db restore.",
)
def backup_now(host: Host, out: Out, is_proven: bool, copy: Path | None, reason: str) -> None:
    """Back up the whole host and drop expired backups."""
    if copy is not None:
        if is_proven:
            fail("--prove needs a backup of the whole host. Leave out --database.")
        copy_database(host, out, copy, reason)
        return
    wanted, moment = wanted_of(host), time.time()
    for name, value in _published(wanted.data).items():
        if value is None and name not in os.environ:
            fail(
                f"{name} is set only in the environment of svc-stack. Move {name} to stack.env, or "
                "set it in the environment of svcctl, too."
            )
    with noted(host, "backup", reason=reason) as trace:
        try:
            with run(wanted.data, moment):
                state, file = _now(wanted, out, moment, drill=is_proven)
        except BackupRunning:
            fail(
                "Another backup of this host is in progress. Try again when that backup has ended."
            )
        trace.target = Path(file).name
    _print_backup(out, state, file)


@host_command(backup, "nightly", hidden=True)
def nightly(host: Host, out: Out) -> None:
    """Make and test a backup, as svc-stack does each night."""
    wanted = wanted_of(host, environ=os.environ)
    os.nice(wanted.settings.nice)
    moment = time.time()
    try:
        with run(wanted.data, moment):
            state, file = _now(wanted, out, moment, drill=wanted.settings.drill)
    except BackupRunning:
        out.text("another backup of this host is in progress, so tonight's is skipped")
        return
    _print_backup(out, state, file)


def _now(wanted: Wanted, out: Out, moment: float, *, drill: bool) -> tuple[Backups, str]:
    """Make a backup; return the new state of the host's backups, and the path of the file."""
    _left_over(wanted.target)
    _step(wanted, BackupStep.MAKE)
    try:
        made, lock = make(wanted, moment)
    except Failed as why:
        put(wanted.data, evolve(known(wanted.data), tried=moment, fault=why.message))
        raise
    drilled = wanted.settings.drill
    state = evolve(remembered(known(wanted.data), made), tried=moment, drilled=drilled)
    put(wanted.data, state)
    out.text(f"{made.file}: {made.bytes} bytes{', encrypted' if made.encrypted else ''}")
    if drill:
        _step(wanted, BackupStep.TEST)
        proof = prove(Path(made.file), lock, database.url_of(wanted.host))
        put(wanted.data, _noted(known(wanted.data), made.file, proof, time.time()))
    _step(wanted, BackupStep.CHECK)
    state = looked_at(thinned(known(wanted.data), wanted))
    put(wanted.data, state)
    return evolve(state, begun=None, step=""), made.file


def _step(wanted: Wanted, step: BackupStep) -> None:
    put(wanted.data, evolve(known(wanted.data), step=step.value))


def _print_backup(out: Out, state: Backups, file: str) -> None:
    """Print details of the new backup ``file``; raises Failed if any backup has a problem."""
    entry = next((backup for backup in state.kept if backup.file == file), None)
    if entry is not None:
        out.data(shown(entry))
        if entry.proven is not None:
            out.text(
                f"tested {clock(entry.proven)}: restored into a temporary host, where players "
                "were simulated"
            )
    if (wrong := state.wrong(time.time())) is not None:
        fail(f"There is a problem with the backups: {wrong}")


def _left_over(target: Path) -> None:
    """Remove the temporary folders of backup runs that were killed."""
    for path in target.glob(".making-*"):
        if time.time() - path.stat().st_mtime > 6 * 3600:
            shutil.rmtree(path, ignore_errors=True)


def _noted(state: Backups, file: str, proof: Proof, moment: float) -> Backups:
    """Return ``state`` with the result of a restore test."""

    def with_proof(entry: Backup) -> Backup:
        if proof.fault is None:
            return evolve(entry, proven=moment, fault=None)
        return evolve(entry, proven=None, fault=proof.fault[: backups.MAX_FAULT])

    return evolve(
        state, kept=[with_proof(entry) if entry.file == file else entry for entry in state.kept]
    )


def thinned(state: Backups, wanted: Wanted) -> Backups:
    """Delete expired backups; other files in the backup folder are kept."""
    settings = wanted.settings
    rule = BackupRetention(settings.days, settings.weeks, settings.months)
    made_at = {path: _made(path) for path in wanted.target.iterdir() if NAME.match(path.name)}
    dates = rule.select_dates(list(made_at.values()))
    # keep the newest tested backup, even if newer ones exist
    proven = next((entry.file for entry in state.kept if entry.proven is not None), None)
    gone = {path for path, made in made_at.items() if made not in dates and str(path) != proven}
    for path in gone:
        path.unlink(missing_ok=True)
    return evolve(state, kept=[entry for entry in state.kept if Path(entry.file) not in gone])


def _made(path: Path) -> datetime:
    match = NAME.match(path.name)
    assert match is not None  # noqa: S101 - callers pass matching names
    return datetime.strptime(match[1], STAMP)


def looked_at(state: Backups) -> Backups:
    """Return ``state`` with a fault for each backup whose file was changed or cannot be read."""
    return evolve(state, kept=[_looked_at(entry) for entry in state.kept])


def _looked_at(entry: Backup) -> Backup:
    path = Path(entry.file)
    try:
        whole = path.stat().st_size == entry.bytes and archive.digest_of(path) == entry.sha256
    except OSError as why:
        return evolve(entry, fault=f"the file cannot be read: {why.strerror}", proven=None)
    if not whole:
        return evolve(
            entry, fault="the file is damaged: it has changed since it was written", proven=None
        )
    return entry


@host_command(backup, "list")
def list_backups(host: Host, out: Out) -> None:
    """List the backups and when each was last tested."""
    state = known(_data_of(host, {}))
    wrong = state.wrong(time.time())
    out.data(
        {"backups": [shown(entry) for entry in state.kept], "tried": state.tried, "wrong": wrong}
    )
    rows = [
        [
            Path(entry.file).name,
            str(entry.bytes),
            "encrypted" if entry.encrypted else "",
            entry.fault or (f"tested {clock(entry.proven)}" if entry.proven else "not tested"),
        ]
        for entry in state.kept
    ]
    out.table(["file", "bytes", "", ""], rows)
    if wrong is not None:
        out.text(f"wrong: {wrong}")


@host_command(backup, "prove", reason=True)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--identity", type=click.Path(path_type=Path), help="File with the private age key.")
def prove_command(
    host: Host, out: Out, file: Path | None, identity: Path | None, reason: str
) -> None:
    """Test FILE: restore it into a temporary host.

    Simulated players then play on the temporary host. FILE defaults to the newest backup. The
    running host is not touched. The test takes about a minute. It needs free ports and as much
    memory as a second host.
    """
    wanted = wanted_of(host, identity)
    state = known(wanted.data)
    path = (file or Path(state.newest.file if state.newest else "")).absolute()
    target = "" if file is None and state.newest is None else path.name
    with noted(host, "prove backup", target, reason=reason):
        if not target:
            fail("There is no backup yet. Make a backup with svcctl backup now.")
        if not path.is_file():
            proof = Proof("the file does not exist")
        else:
            proof = prove(path, wanted.lock, database.url_of(host))
        moment = time.time()
        if any(entry.file == str(path) for entry in state.kept):
            put(wanted.data, _noted(known(wanted.data), str(path), proof, moment))
        out.data({"file": str(path), "proven": proof.fault is None, "fault": proof.fault})
        if proof.fault is not None:
            fail(f"{path}: {proof.fault}")
    rows = sum(proof.contents.counted.tables.values()) if proof.contents is not None else 0
    out.text(
        f"{path}: tested {clock(moment)}; {rows} rows were restored, and players were simulated"
    )


@host_command(backup, "restore", reason=True)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Restore the whole host into DIR.",
)
@click.option("--identity", type=click.Path(path_type=Path), help="File with the private age key.")
@click.option("--stop", is_flag=True, help="Stop a running host first.")
def restore(
    host: Host,
    out: Out,
    file: Path,
    into: Path | None,
    identity: Path | None,
    reason: str,
    stop: bool,
) -> None:
    """Restore the database or the whole host from FILE.

    Without --into, the database in FILE replaces the database of this host; stop the host first.
    With --into, the whole host is restored into DIR.
    """
    if into is None:
        with noted(host, "restore", file.name, reason=reason), stoppable():
            _there(file)
            into_place(file, wanted_of(host, identity).lock, host, out, stop=stop)
        return
    if stop:
        fail(
            "--stop cannot be used with --into. The host can keep running while you restore into"
            " DIR. Leave out --stop or --into."
        )
    _there(file)
    folder = whole_path(into)
    target = Host(folder)  # the default host may no longer exist
    with (
        as_owner_of(folder),
        noted(target, "restore", file.name, reason=reason),
        stoppable(),
    ):
        into_folder(file, _lock(host, identity, file), folder, out)


def _there(file: Path) -> None:
    if not file.is_file():
        fail(f"there is no backup file {file}")


def _lock(host: Host, identity: Path | None, file: Path) -> BackupLock:
    """Return the decryption keys for a backup.

    The keys come from the host's settings; ``identity`` overrides their private key. Without
    settings and ``identity``, the passphrase comes from BACKUP_PASSPHRASE or from the user.
    """
    if host.folder is not None and (host.folder / WORKER_FILE).is_file():
        return wanted_of(host, identity).lock
    if identity is None and is_closed(file):
        return BackupLock(
            passphrase=Secret(os.environ.get("BACKUP_PASSPHRASE") or _prompt_passphrase())
        )
    return BackupLock(identity=identity)


def _prompt_passphrase() -> str:
    """Ask for the passphrase on the terminal; raises Failed if there is no terminal."""
    if not sys.stdin.isatty():
        fail("The passphrase is missing. Set BACKUP_PASSPHRASE, or give --identity FILE.")
    words: str = prompt("Passphrase", hide_input=True)
    return words


def shown(entry: Backup) -> dict[str, object]:
    """Return a backup in the form that ``--json`` prints."""
    return {
        "file": entry.file,
        "made": entry.made,
        "bytes": entry.bytes,
        "sha256": entry.sha256,
        "encrypted": entry.encrypted,
        "secrets": entry.secrets,
        "proven": entry.proven,
        "fault": entry.fault,
    }


def clock(moment: float) -> str:
    """Return epoch seconds as local time, such as ``2026-11-22 04:17``."""
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")
