"""Makes backups. Each is one archive with a snapshot of the database and the host's small files."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from attrs import evolve, frozen
from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from svcserver.ctl import database
from svcserver.ctl.backup import archive
from svcserver.ctl.backup.archive import Contents, DatabaseCounts
from svcserver.ctl.backup.sealing import SUFFIX, BackupLock, CannotSeal
from svcserver.ctl.bundle import is_secret, secrets_of
from svcserver.ctl.database_commands import copy_sqlite, make_one_file, sqlite_faults
from svcserver.ctl.host import Host
from svcserver.ctl.output import fail
from svcserver.ctl.postgres import needs, pg_dump
from svcserver.db.engine import make_engine
from svcserver.kernel import backups
from svcserver.kernel.backup_settings import BackupSettings
from svcserver.kernel.backups import Backup
from svcserver.kernel.disk import sync_folder

NAME = re.compile(r"svc-backup-(\d{8}-\d{6})\.tar\.gz(?:\.age)?\Z")
STAMP = "%Y%m%d-%H%M%S"
ROOM = 3  # free space on the backup disk, as a multiple of the database's size
# files that are not backed up: created anew, too large, or (live state) with staff sessions
LEFT_OUT = re.compile(
    r"svc\.db.*|.*\.db(-wal|-shm|-journal)?|(.*\.)?before-restore-.*|"
    r".*\.log(\.\d+)?(\.gz)?|.*\.new|"
    r"stack\.json|stack-wish\.json|alert-channels\.json|alert-test-.*|"
    r"live-state\.json|backup-state\.json|backup-running|backup-request\.json|host-(state|history)\.json|allowlist-state\.json|"
    r"gameserver-(logs|state)|__pycache__|svc[-_]launcher.*|\..*"
)
PLAIN = {".json", ".md", ".txt", ".html", ".css", ".svg", ".png", ".jpg", ".jpeg", ".webp", ".ico"}
PLAIN |= {".service", ".timer", ".target", ".logrotate"}
CERTIFICATE = "gateway-cert.pem"


@frozen
class Wanted:
    """The host to back up, and the settings for its backups."""

    host: Host
    folder: Path  # the folder of the host's settings
    data: Path  # the folder where the components run, which may be the same
    target: Path  # the folder of the backups
    settings: BackupSettings

    @property
    def lock(self) -> BackupLock:
        """Return the encryption of the backup: public keys, a passphrase, or none."""
        settings = self.settings
        identity = self.host.path(settings.identity) if settings.identity else None
        return BackupLock(settings.recipients, settings.passphrase, identity)


def make(wanted: Wanted, now: float) -> tuple[Backup, BackupLock]:
    """Write a backup; return its record, and the keys with which its file can be decrypted."""
    lock = _lock(wanted)
    if wanted.settings.with_secrets and not lock:
        fail(
            "BACKUP_SECRETS=1 needs BACKUP_PASSPHRASE or BACKUP_RECIPIENTS in stack.env: "
            "backups with secrets must be encrypted"
        )
    url = database.url_of(wanted.host)
    if url.get_backend_name() == "postgresql":
        needs("pg_dump")
    if (file := database.file_of(url)) is not None:
        database.existing_file(file)
    try:
        wanted.target.mkdir(mode=0o700, parents=True, exist_ok=True)
        _room(wanted.target, file)
        scratch = Path(tempfile.mkdtemp(prefix=".making-", dir=wanted.target))
    except OSError as why:
        fail(
            f"{wanted.target} cannot be written: {why.strerror}. Set BACKUP_DIR in stack.env to "
            "another folder."
        )
    try:
        clear = scratch / "clear.tar.gz"
        contents = _pack(wanted, url, scratch, clear, now)
        stamp = datetime.fromtimestamp(now).strftime(STAMP)
        final = wanted.target / f"svc-backup-{stamp}.tar.gz{SUFFIX if lock else ''}"
        if final.exists():
            fail(
                f"no backup was made: {final} already exists. The name of a backup file contains "
                "the time. Run this command again to get a new name."
            )
        made = _finish(clear, final, lock, scratch)
        digest, size = archive.digest_of(made), made.stat().st_size
        made.rename(final)
        sync_folder(wanted.target)
        return Backup(str(final), now, size, digest, bool(lock), contents.secrets), lock
    except OSError as why:
        fail(f"the backup cannot be written: {why.strerror or why}")
    except CannotSeal as why:
        fail(str(why))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _lock(wanted: Wanted) -> BackupLock:
    try:
        return wanted.lock.proving()
    except CannotSeal as why:
        fail(str(why))


def _finish(clear: Path, final: Path, lock: BackupLock, scratch: Path) -> Path:
    """Encrypt the archive, unless ``lock`` is empty; return the path of the result."""
    made = scratch / final.name
    if lock:
        os.close(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        lock.close(clear, made)
    else:
        os.link(clear, made)
    return made


def _room(target: Path, file: Path | None) -> None:
    size = sum(
        path.stat().st_size
        for path in ([file, Path(f"{file}-wal")] if file else [])
        if path.exists()
    )
    free = shutil.disk_usage(target).free
    if free < ROOM * size + (64 << 20):
        fail(
            f"the disk of {target} has {free >> 20} MB of free space, but a backup needs "
            f"{(ROOM * size >> 20) + 64} MB. Free some space, or set BACKUP_DIR in stack.env to "
            "a folder on another disk."
        )


def _pack(wanted: Wanted, url: URL, scratch: Path, clear: Path, now: float) -> Contents:
    snapshot = scratch / "database"
    counted, kind = _snapshot(url, snapshot)
    with_secrets = wanted.settings.with_secrets
    parts: dict[str, Path | bytes] = {archive.DATABASE: snapshot}
    left_out = []
    for name, part in _files(wanted, with_secrets=with_secrets):
        if part is None:
            left_out.append(name)
        else:
            parts[archive.FILES + name] = part
    contents = Contents(
        version=version("svcserver"),
        made=now,
        kind=kind,
        folder=str(wanted.folder.absolute()),
        data=str(wanted.data),
        secrets=with_secrets,
        counted=counted,
        files={name: archive.digest_of(part) for name, part in parts.items()},
        left_out=left_out[: archive.MOST_FILES],
    )
    archive.pack(clear, contents, parts)
    snapshot.unlink()
    return contents


# -- the database ------------------------------------------------------------------


def _snapshot(url: URL, target: Path) -> tuple[DatabaseCounts, str]:
    """Copy a snapshot of the database; return the copy's ``DatabaseCounts`` and format."""
    file = database.file_of(url)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if file is not None:
        copy_sqlite(database.existing_file(file), target)
        make_one_file(target)
        if faults := sqlite_faults(target):
            fail(f"the database is damaged: {faults[0]}; run svcctl db check")
        return count(URL.create("sqlite", database=str(target))), "sqlite"
    with database.snapshot(make_engine(url)) as tx:
        moment = str(tx.execute(text("SELECT pg_export_snapshot()")).scalar_one())
        pg_dump(url, target, f"--snapshot={moment}")
        return _count(tx), "postgresql"


def count(url: URL) -> DatabaseCounts:
    """Return the number of rows in each table and a digest of all players' characters.

    Raises Failed for a database error.
    """
    with database.snapshot(make_engine(url)) as tx:
        return _count(tx)


_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
    "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
}
_CHARACTERS = (
    "SELECT c.id AS id, c.update_version AS version, s.data AS data FROM characters c "
    "JOIN character_saves s ON s.id = c.save_id ORDER BY c.id"
)


def _count(tx: Connection) -> DatabaseCounts:
    names = sorted(str(name) for name in tx.execute(text(_TABLES[tx.dialect.name])).scalars())
    tables = {
        name: int(tx.execute(text(f'SELECT count(*) FROM "{name}"')).scalar_one())  # noqa: S608
        for name in names
    }
    digest = hashlib.sha256()
    order = ' COLLATE "C"' if tx.dialect.name == "postgresql" else ""
    rows = tx.execution_options(yield_per=100).execute(text(_CHARACTERS + order))
    for row in rows:
        digest.update(f"{row.id} {row.version} ".encode() + bytes(row.data) + b"\n")
    return DatabaseCounts(tables, digest.hexdigest())


# -- the files ---------------------------------------------------------------------


def _files(wanted: Wanted, *, with_secrets: bool) -> Iterator[tuple[str, Path | bytes | None]]:
    """Yield each small file's name and content; the content is None if the file is left out."""
    folder = wanted.folder
    known = [] if with_secrets else [secret.encode() for secret in secrets_of(wanted.host, folder)]
    count = 0
    for above, path in _everywhere(wanted):
        name, count = str(path.relative_to(above)), count + 1
        largest = archive.LARGEST_ENV if path.suffix == ".env" else archive.LARGEST
        if not archive.is_kept(Path(archive.FILES + name)):
            yield name.encode("utf-8", "backslashreplace").decode(), None
        elif count > archive.MOST_FILES or not path.is_file() or path.stat().st_size > largest:
            yield name, None
        elif with_secrets:
            yield name, path
        elif path.suffix == ".env" and path.parent == folder:
            yield name, "\n".join([*_settings(wanted.host, path), ""]).encode()
        elif path.name == CERTIFICATE or path.suffix in PLAIN:
            data = path.read_bytes()
            yield name, None if any(secret in data for secret in known) else data
        else:
            yield name, None


def _everywhere(wanted: Wanted) -> Iterator[tuple[Path, Path]]:
    """Yield (folder, file) for files in the settings folder and, if separate, the data folder."""
    skipped = {_game(wanted), wanted.target.resolve()}
    yield from ((wanted.folder, path) for path in _walk(wanted.folder, skipped))
    if wanted.data.resolve() != wanted.folder.resolve():
        yield from ((wanted.data, path) for path in _walk(wanted.data, skipped))


def _walk(folder: Path, skipped: set[Path], depth: int = 1) -> Iterator[Path]:
    """Yield the files below a folder.

    A subfolder that is nested too deeply is yielded itself, instead of the files in it.
    """
    for path in sorted(folder.iterdir()):
        if LEFT_OUT.fullmatch(path.name) or path.is_symlink() or path.resolve() in skipped:
            continue
        if path.is_dir() and depth < archive.DEEPEST:
            yield from _walk(path, skipped, depth + 1)
        elif path.is_dir() or path.is_file():
            yield path


def _game(wanted: Wanted) -> Path:
    """Return the folder of the game files, which are not part of backups."""
    named = ""
    if (wanted.folder / "content.env").is_file():
        named = wanted.host.variables("content").get("CONTENT_GAME_DIR", "")
    return wanted.host.path(named or "game").resolve()


def _settings(host: Host, path: Path) -> Iterator[str]:
    """Yield the lines of an env file, with empty values for secrets."""
    component = path.stem
    for name, value in host.variables(component).items():
        hidden = is_secret(component, name) or re.search(r"://[^/@\s]*@", value) is not None
        yield f"{name}={'' if hidden else value}"


def remembered(state: backups.Backups, added: Backup) -> backups.Backups:
    """Return ``state`` after a successful run: with the new backup, and without the last fault."""
    return evolve(state, kept=[added, *state.kept], fault=None)
