"""``svcctl backup``: make, list, prove and restore backups of the whole host."""

from __future__ import annotations

import os
import shutil
import sys
import time
from datetime import datetime
from pathlib import Path

import click
from attrs import evolve

from svcserver.ctl import database
from svcserver.ctl.backup import archive
from svcserver.ctl.backup.making import NAME, STAMP, Wanted, make, remembered
from svcserver.ctl.backup.proving import Proof, prove
from svcserver.ctl.backup.restoring import into_folder, into_place
from svcserver.ctl.backup.retention import Retention
from svcserver.ctl.backup.runs import Busy, known, put, run
from svcserver.ctl.backup.sealing import Lock, is_closed
from svcserver.ctl.database_commands import copy_database
from svcserver.ctl.host import Host, about_a_host, as_owner_of, with_reason
from svcserver.ctl.host_creation import whole_path
from svcserver.ctl.noting import noted
from svcserver.ctl.output import Failed, Out, fail, prompt
from svcserver.ctl.stopping import stoppable
from svcserver.kernel import backups
from svcserver.kernel.backups import Backup, Backups
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import BadSetting, load, with_env_file
from svcserver.stack.backups import BackupSettings
from svcserver.stack.service import Settings as Stack
from svcserver.stack.workers import WORKER_FILE


@click.group("backup")
def backup() -> None:
    """The whole host in one file, and whether it can be restored."""


def wanted_of(host: Host, identity: Path | None = None) -> Wanted:
    """How this host's backups are made; fails with one line."""
    if host.folder is None:
        fail("a backup is of a whole host; give its folder with --config DIR")
    if not (host.folder / "metagame.env").is_file():
        fail(f"{host.folder} is no host: it has no metagame.env; make one with svcctl init DIR")
    own = host.folder / WORKER_FILE
    try:
        environ = with_env_file(str(own) if own.is_file() else None, {})
        settings, stack = load(BackupSettings, environ)[0], load(Stack, environ)[0]
    except BadSetting as why:
        fail(f"{own}: {why}")
    if identity is not None:
        settings = evolve(settings, identity=str(identity.absolute()))
    data = Path(stack.data_dir or host.folder).absolute()
    return Wanted(host, host.folder, data, (data / settings.folder).absolute(), settings)


@backup.command("now")
@click.option("--prove", "is_proven", is_flag=True, help="Restore it into scratch and play on it.")
@click.option(
    "--database",
    "copy",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Copy the database alone, into FILE; svcctl db restore puts it back.",
)
@with_reason
@about_a_host
def backup_now(host: Host, out: Out, is_proven: bool, copy: Path | None, reason: str) -> None:
    """Make a backup of the whole host, check it, and drop those that are no longer kept."""
    if copy is not None:
        if is_proven:
            fail("--prove is for a backup of the whole host; leave out --database")
        copy_database(host, out, copy, reason)
        return
    wanted, moment = wanted_of(host), time.time()
    with noted(host, "backup", reason=reason) as trace:
        try:
            with run(wanted.data, moment):
                state, file = _now(wanted, out, moment, drill=is_proven)
        except Busy:
            fail("a backup of this host is being made already; svcctl backup list shows it then")
        trace.target = Path(file).name
    _tell(out, state, file)


@backup.command("nightly", hidden=True)
@about_a_host
def nightly(host: Host, out: Out) -> None:
    """What svc-stack runs every night: make one, prove it, look at all others."""
    wanted = wanted_of(host)
    os.nice(wanted.settings.nice)
    moment = time.time()
    try:
        with run(wanted.data, moment):
            state, file = _now(wanted, out, moment, drill=wanted.settings.drill)
    except Busy:
        out.say("a backup of this host is being made already: this night has that one")
        return
    _tell(out, state, file)


def _now(wanted: Wanted, out: Out, moment: float, *, drill: bool) -> tuple[Backups, str]:
    """Make one; what is known then, and its file."""
    _left_over(wanted.target)
    try:
        made, lock = make(wanted, moment)
    except Failed as why:
        put(wanted.data, evolve(known(wanted.data), tried=moment, fault=why.message))
        raise
    drilled = wanted.settings.drill
    state = evolve(remembered(known(wanted.data), made), tried=moment, drilled=drilled)
    put(wanted.data, state)
    out.say(f"{made.file}: {made.bytes} bytes{', encrypted' if made.encrypted else ''}")
    if drill:
        proof = prove(Path(made.file), lock, database.url_of(wanted.host))
        state = _noted(known(wanted.data), made.file, proof, time.time())
    state = looked_at(thinned(state, wanted))
    put(wanted.data, state)
    return evolve(state, begun=None), made.file


def _tell(out: Out, state: Backups, file: str) -> None:
    """Show the backup just made; fails where not all is well with them."""
    one = next((one for one in state.kept if one.file == file), None)
    if one is not None:
        out.data(shown(one))
        if one.proven is not None:
            out.say(f"proven {clock(one.proven)}: it was restored into scratch and played on")
    if (wrong := state.wrong(time.time())) is not None:
        fail(f"not all is well with the backups: {wrong}")


def _left_over(target: Path) -> None:
    """Remove what a backup that was killed had half written."""
    for path in target.glob(".making-*"):
        if time.time() - path.stat().st_mtime > 6 * 3600:
            shutil.rmtree(path, ignore_errors=True)


def _noted(state: Backups, file: str, proof: Proof, moment: float) -> Backups:
    """``state`` with what a drill of one backup showed."""

    def said(one: Backup) -> Backup:
        if proof.fault is None:
            return evolve(one, proven=moment, fault=None)
        return evolve(one, proven=None, fault=proof.fault[: backups.MAX_FAULT])

    return evolve(state, kept=[said(one) if one.file == file else one for one in state.kept])


def thinned(state: Backups, wanted: Wanted) -> Backups:
    """Delete the backups that are no longer kept; what others put into the folder stays."""
    one = wanted.settings
    rule = Retention(one.days, one.weeks, one.months)
    at = {path: _made(path) for path in wanted.target.iterdir() if NAME.match(path.name)}
    kept = rule.kept(list(at.values()))
    # the newest proven one is worth more than any newer that is not
    proven = next((each.file for each in state.kept if each.proven is not None), None)
    gone = {path for path, made in at.items() if made not in kept and str(path) != proven}
    for path in gone:
        path.unlink(missing_ok=True)
    return evolve(state, kept=[each for each in state.kept if Path(each.file) not in gone])


def _made(path: Path) -> datetime:
    found = NAME.match(path.name)
    assert found is not None  # noqa: S101 - only such are asked for
    return datetime.strptime(found[1], STAMP)


def looked_at(state: Backups) -> Backups:
    """``state`` with the fault of each file that is no longer as it was written."""
    return evolve(state, kept=[_looked_at(one) for one in state.kept])


def _looked_at(one: Backup) -> Backup:
    path = Path(one.file)
    try:
        whole = path.stat().st_size == one.bytes and archive.digest_of(path) == one.sha256
    except OSError as why:
        return evolve(one, fault=f"it cannot be read: {why.strerror}", proven=None)
    if not whole:
        return evolve(one, fault="it is damaged: not as it was written", proven=None)
    return one


@backup.command("list")
@about_a_host
def list_backups(host: Host, out: Out) -> None:
    """The backups that are kept, and when each was proven."""
    state = known(wanted_of(host).data)
    wrong = state.wrong(time.time())
    out.data({"backups": [shown(one) for one in state.kept], "tried": state.tried, "wrong": wrong})
    rows = [
        [
            Path(one.file).name,
            str(one.bytes),
            "encrypted" if one.encrypted else "",
            one.fault or (f"proven {clock(one.proven)}" if one.proven else "not proven"),
        ]
        for one in state.kept
    ]
    out.table(["file", "bytes", "", ""], rows)
    if wrong is not None:
        out.say(f"wrong: {wrong}")


@backup.command("prove")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--identity", type=click.Path(path_type=Path), help="The private key of age.")
@with_reason
@about_a_host
def prove_command(
    host: Host, out: Out, file: Path | None, identity: Path | None, reason: str
) -> None:
    """Restore FILE (the newest backup) into scratch, and live an evening on it.

    Your host is not touched. It takes a minute, free ports and the memory of a second host.
    """
    wanted = wanted_of(host, identity)
    state = known(wanted.data)
    path = (file or Path(state.newest.file if state.newest else "")).absolute()
    target = "" if file is None and state.newest is None else path.name
    with noted(host, "prove backup", target, reason=reason):
        if not target:
            fail("there is no backup yet; make one with svcctl backup now")
        if not path.is_file():
            proof = Proof("it is not there")
        else:
            proof = prove(path, wanted.lock, database.url_of(host))
        moment = time.time()
        if any(one.file == str(path) for one in state.kept):
            put(wanted.data, _noted(known(wanted.data), str(path), proof, moment))
        out.data({"file": str(path), "proven": proof.fault is None, "fault": proof.fault})
        if proof.fault is not None:
            fail(f"{path}: {proof.fault}")
    rows = sum(proof.contents.counted.tables.values()) if proof.contents is not None else 0
    out.say(f"{path}: proven {clock(moment)}; {rows} rows are all there, and an evening was played")


@backup.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--into", metavar="DIR", type=click.Path(path_type=Path), help="As a host in DIR.")
@click.option("--identity", type=click.Path(path_type=Path), help="The private key of age.")
@click.option("--stop", is_flag=True, help="Stop the host first, if it runs.")
@with_reason
@about_a_host
def restore(
    host: Host,
    out: Out,
    file: Path,
    into: Path | None,
    identity: Path | None,
    reason: str,
    stop: bool,
) -> None:
    """Put FILE's database in the place of this host's; with --into make the whole host anew.

    A running host is refused: what players do meanwhile would be lost.
    """
    if into is None:
        with noted(host, "restore", file.name, reason=reason), stoppable():
            _there(file)
            into_place(file, wanted_of(host, identity).lock, host, out, stop=stop)
        return
    if stop:
        fail("--stop is for a restore in the place of this host's database: leave out --into")
    _there(file)
    folder = whole_path(into)
    other = Host(folder)  # this one may be gone
    with (
        as_owner_of(folder),
        noted(other, "restore", file.name, reason=reason),
        stoppable(),
    ):
        into_folder(file, _lock(host, identity, file), folder, out)


def _there(file: Path) -> None:
    if not file.is_file():
        fail(f"there is no backup {file}")


def _lock(host: Host, identity: Path | None, file: Path) -> Lock:
    """The keys for a backup; its host may be gone, so a passphrase is asked for."""
    if host.folder is not None and (host.folder / WORKER_FILE).is_file():
        return wanted_of(host, identity).lock
    if identity is None and is_closed(file):
        return Lock(passphrase=Secret(os.environ.get("BACKUP_PASSPHRASE") or _asked()))
    return Lock(identity=identity)


def _asked() -> str:
    """The passphrase, from a terminal; fails where there is none."""
    if not sys.stdin.isatty():
        fail("nobody is here to ask for the passphrase; give BACKUP_PASSPHRASE, or --identity FILE")
    words: str = prompt("Passphrase", hide_input=True)
    return words


def shown(one: Backup) -> dict[str, object]:
    """A backup as ``--json`` shows it."""
    return {
        "file": one.file,
        "made": one.made,
        "bytes": one.bytes,
        "sha256": one.sha256,
        "encrypted": one.encrypted,
        "secrets": one.secrets,
        "proven": one.proven,
        "fault": one.fault,
    }


def clock(moment: float) -> str:
    """Epoch seconds as ``2026-11-22 04:17`` of the local time zone."""
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")
