"""The command ``svcctl db``, which maintains the database. Only a restore needs a stopped host."""

import os
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import click
from sqlalchemy.engine import URL

from svcserver.ctl import database, postgres, postgres_restore, running
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.noting import noted
from svcserver.ctl.output import Failed, HalfDone, Out, fail
from svcserver.ctl.stopping import STOPPED, stoppable
from svcserver.db import migrations
from svcserver.db.engine import BadDatabase, make_engine
from svcserver.db.faults import cure_of
from svcserver.metagame.access.staff_sessions import end_all_sessions

LOCKED_S = 30  # how long a copy waits for another program's lock on one of the files
MOST_FAULTS = 100  # faults that are listed for a damaged file
NO_SQLITE = "the file does not begin like an SQLite database"
FOREIGN_CODE = (
    "the database in the backup has a view, a virtual table or a trigger that no version of "
    "svcserver makes"
)
_AUDIT_TRIGGER = re.compile(  # created by migration 0009
    r"CREATE TRIGGER audit_log_no_[a-z]+ BEFORE [A-Z]+ ON audit_log "
    r"BEGIN SELECT RAISE\(ABORT, '[a-z ]+'\); END"
)
DANGLING = "refers to a row that does not exist"
_MAGIC = b"SQLite format 3\0"
_DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
_NOT_UPGRADED = "upgrade failed: the backup's data is in place"


@click.group()
def db() -> None:
    """Upgrade, check, restore or copy the database."""


@host_command(db, "upgrade", reason=True)
def upgrade(host: Host, out: Out, reason: str) -> None:
    """Upgrade the database to the installed version."""
    with noted(host, "upgrade database", reason=reason):
        migrate(database.url_of(host))
    out.data({"upgraded": True})
    out.text("the database is up to date")


def migrate(url: URL) -> None:
    """Run the migrations; a new SQLite file gets mode 0600."""
    file = database.file_of(url)
    engine = make_engine(url)
    try:
        if file is not None and not file.exists():
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
        migrations.upgrade(engine)
    except BadDatabase as why:
        fail(str(why))
    except OSError as why:
        fail(f"the database {file} cannot be created: {why.strerror}")
    finally:
        engine.dispose()


def bring_up(url: URL, previous: Path | None) -> None:
    """Upgrade a database that was just restored.

    ``previous`` is the file with the previous database; None if there was no previous database.
    """
    so_far = "the backup's data is in place, but not upgraded to this version"
    if previous is not None:
        so_far += (
            f". The previous database is in {previous}. To restore the previous database, run "
            f"svcctl db restore {previous}"
        )
    try:
        migrate_restored(url)
    except Failed as why:
        line = f"{so_far}. To continue, fix the error and run svcctl db upgrade: {why.message}"
        raise HalfDone(line, _NOT_UPGRADED) from None
    except STOPPED:
        raise HalfDone(
            f"the restore was stopped; {so_far}. To continue, run svcctl db upgrade", _NOT_UPGRADED
        ) from None


def _way_back(previous: Path | None) -> str:
    if previous is None:
        return ""
    return (
        f". The previous database is in {previous}. To restore the previous database, run "
        f"svcctl db restore {previous}"
    )


def migrate_restored(url: URL) -> None:
    """Run the migrations, and end the dashboard sessions in the restored database."""
    migrate(url)
    with database.transaction(make_engine(url)) as tx:
        end_all_sessions(tx)


@host_command(db, "check")
def check(host: Host, out: Out) -> None:
    """Check every page and reference of the database.

    The exit code is non-zero if a fault is found.
    """
    url = database.url_of(host)
    faults = sqlite_faults(database.file_of(url))
    with database.transaction(database.existing(url)) as tx:
        row = tx.exec_driver_sql("SELECT version_num FROM alembic_version").first()
        accounts = tx.exec_driver_sql("SELECT count(*) FROM accounts").scalar_one()
        saves = tx.exec_driver_sql("SELECT count(*) FROM character_saves").scalar_one()
    if faults:
        fail(f"the database is damaged: {faults[0]}; {cure_of_damage(faults)}")
    revision = str(row[0]) if row is not None else "none"
    out.data({"ok": True, "revision": revision, "accounts": accounts, "saves": saves})
    out.text(f"The database is sound: revision {revision}, {accounts} accounts, {saves} saves")


def sqlite_faults(file: Path | None) -> list[str]:
    """Return the damage that SQLite's integrity checks find in ``file``.

    For PostgreSQL, ``file`` is None and the list is empty. Raises Failed if the file cannot be
    checked.
    """
    if file is None:
        return []
    database.existing_file(file)
    try:
        with closing(sqlite3.connect(_to_read(file), uri=True, timeout=30)) as connection:
            lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            broken = connection.execute("PRAGMA foreign_key_check").fetchmany(MOST_FAULTS)
    except sqlite3.Error as why:
        if (getattr(why, "sqlite_errorname", "") or "").startswith(_DAMAGE):
            return [NO_SQLITE if _begins_otherwise(file) else str(why)]
        hindrance = database.obstacle(file)
        if hindrance is not None:
            fail("; ".join(hindrance))
        fail(f"{file} cannot be checked: {why}; {cure_of(why) or 'check the file and its disk'}")
    return [line for line in lines if line != "ok"] + [
        f"row {row[1]} of {row[0]} {DANGLING}" for row in broken
    ]


def cure_of_damage(faults: list[str]) -> str:
    """Return how to fix the damage that ``sqlite_faults`` found."""
    restore = "stop the metagame and restore a backup with svcctl db restore FILE"
    if NO_SQLITE in faults:
        return f"correct DATABASE_URL; if it is correct already, {restore}"
    if all(fault.endswith(DANGLING) for fault in faults):
        return (
            "somebody changed the database by hand: undo the change; if it cannot be "
            f"undone, {restore}"
        )
    return restore


def _begins_otherwise(file: Path) -> bool:
    """Return True if the file does not begin like an SQLite database."""
    with file.open("rb") as opened:
        return opened.read(len(_MAGIC)) != _MAGIC


def has_foreign_code(file: Path) -> bool:
    """Return whether an SQLite file has a view, a virtual table or an unknown trigger."""
    query = (
        "SELECT sql FROM sqlite_master "
        "WHERE type IN ('view', 'trigger') OR sql LIKE 'CREATE VIRTUAL%'"
    )
    with closing(sqlite3.connect(_to_read(file), uri=True, timeout=30)) as connection:
        return not all(_AUDIT_TRIGGER.fullmatch(sql) for (sql,) in connection.execute(query))


def _to_read(file: Path) -> str:
    """Return the URI with which SQLite opens a file read-only."""
    return f"file:{quote(str(file))}?mode=ro"


@host_command(db, "backup", reason=True, hidden=True)
@click.argument("target", metavar="FILE", type=click.Path(path_type=Path))
def backup(host: Host, out: Out, target: Path, reason: str) -> None:
    """Do the same as "svcctl backup now --database FILE"."""
    copy_database(host, out, target, reason)


def copy_database(host: Host, out: Out, target: Path, reason: str) -> None:
    """Copy a snapshot of the database into a new file, and check the copy."""
    with noted(host, "backup", target.name, reason=reason), stoppable():
        if target.exists():
            fail(f"{target} already exists; choose another name")
        url = database.url_of(host)
        fresh = target.with_name(target.name + ".new")
        try:
            os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            file = database.file_of(url)
            if file is None:
                postgres.pg_dump(url, fresh)
            else:
                copy_sqlite(database.existing_file(file), fresh)
                make_one_file(fresh)
                if faults := sqlite_faults(fresh):
                    fail(
                        f"the new backup is damaged: {faults[0]};"
                        " check the database with svcctl db check"
                    )
            fresh.rename(target)
        except OSError as why:
            fail(f"{target} cannot be written: {why.strerror}")
        finally:
            fresh.unlink(missing_ok=True)
    out.data({"file": str(target), "bytes": target.stat().st_size})
    out.text(f"{target}: {target.stat().st_size} bytes, checked")


@host_command(db, "restore", reason=True)
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--stop", is_flag=True, help="Stop a running host first.")
def restore(host: Host, out: Out, source: Path, reason: str, stop: bool) -> None:
    """Replace the database with the backup FILE.

    Stop the host first, or use --stop. The previous database is kept, and this command can restore
    it, too. For SQLite, it is next to the database file, as svc.db.before-restore-DATE-TIME. For
    PostgreSQL, it is in the host's folder, as before-restore-DATE-TIME.dump.
    """
    with noted(host, "restore", source.name, reason=reason), stoppable():
        url = database.url_of(host)
        file = database.file_of(url)
        if not source.is_file():
            fail(f"there is no backup file {source}")
        if not stop:
            running.refuse_running(host, url)
        if file is not None:
            if faults := sqlite_faults(source):
                fail(f"{source} is not a valid backup: {faults[0]}; the database was not changed")
            if not _has_accounts(source):
                fail(f"{source} is not a backup of a host; the database was not changed")
            if has_foreign_code(source):
                fail(
                    f"{source} cannot be restored: {FOREIGN_CODE}; the host's database was not "
                    "changed"
                )
        with running.stopped(host, url, out, stop_it=stop):
            if file is None:
                previous = postgres_restore.put_back(source, url, host.path(""), out.text)
            else:
                previous = put_back(source, file)
            bring_up(url, previous)
    out.data({"restored": str(source), "kept": str(previous) if previous else None})
    out.text(
        f"restored from {source}"
        + (f"; the previous database is in {previous}" if previous else "")
    )


def _has_accounts(source: Path) -> bool:
    with closing(sqlite3.connect(_to_read(source), uri=True)) as connection:
        query = "SELECT count(*) FROM sqlite_master WHERE name = 'accounts'"
        return bool(connection.execute(query).fetchone()[0])


def put_back(source: Path, file: Path) -> Path | None:
    """Replace the database ``file`` with a valid backup.

    Returns the path of the copy of the previous database; None if there was no database.
    """
    previous = None
    if file.exists():
        previous = file.with_name(f"{file.name}.before-restore-{time.strftime('%Y%m%d-%H%M%S')}")
        if previous.exists():
            fail(
                "nothing was restored: svcctl could not copy the current database, "
                f"because {previous} already exists. Run the command again. The name of "
                "the copy contains the time, so the next copy gets another name."
            )
        os.close(os.open(previous, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        copy_sqlite(file, previous)
        make_one_file(previous)
    else:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        copy_sqlite(source, file)
    except STOPPED:  # the copy is atomic, but it may be complete already
        line = f"the restore was stopped; {file} may already have the backup's data. "
        line += "To finish the restore, run svcctl db upgrade"
        raise HalfDone(line + _way_back(previous), "stopped: it may have been done") from None
    return previous


def copy_sqlite(source: Path, target: Path) -> None:
    """Copy a snapshot of ``source`` into ``target`` with SQLite's online backup."""
    began = time.monotonic()

    def tried(status: int, _left: int, _pages: int) -> None:
        # Python handles signals only here: SQLite's own wait would ignore them and never end
        if status != sqlite3.SQLITE_DONE and time.monotonic() - began > LOCKED_S:
            raise sqlite3.OperationalError("another program has locked one of the databases")

    try:
        with (
            closing(sqlite3.connect(_to_read(source), uri=True, timeout=0)) as reader,
            closing(sqlite3.connect(target, timeout=0)) as writer,
        ):
            reader.backup(writer, progress=tried)
    except sqlite3.Error as why:
        hindrance = database.obstacle(source) or database.obstacle(target)
        if hindrance is not None:
            fail(f"{source} cannot be copied to {target}: {'; '.join(hindrance)}")
        cure = cure_of(why) or "run svcctl db check"
        fail(f"{source} cannot be copied to {target}: {why}; {cure}")


def make_one_file(copy: Path) -> None:
    """Switch a copy out of WAL mode; otherwise its readers would leave -wal and -shm files."""
    try:
        with closing(sqlite3.connect(copy, timeout=30)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as why:
        fail(f"the database copy {copy} cannot be finished: {why}")
