"""Restores a backup: the database into an existing host, or the whole host into a new folder."""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen
from sqlalchemy.engine import URL

from svcserver.content.manifest_builder import OWNERS_NOTE
from svcserver.ctl import begun, database, postgres, postgres_restore, running
from svcserver.ctl.backup import archive
from svcserver.ctl.backup.archive import Contents, DamagedBackup
from svcserver.ctl.backup.making import count
from svcserver.ctl.backup.scratch import scratch
from svcserver.ctl.backup.sealing import BackupLock, CannotSeal, is_closed
from svcserver.ctl.begun import Begun
from svcserver.ctl.blueprint import LAUNCHER
from svcserver.ctl.bundle import is_secret
from svcserver.ctl.database_commands import (
    FOREIGN_CODE,
    bring_up,
    has_foreign_code,
    migrate_restored,
    put_back,
    sqlite_faults,
)
from svcserver.ctl.host import OWNER_KEY, Host
from svcserver.ctl.host_creation import (
    DATABASE,
    README,
    write_launcher_note,
    write_ownerless,
    write_private,
    write_units,
)
from svcserver.ctl.output import Out, config_of, fail
from svcserver.ctl.units import SERVICES
from svcserver.db.engine import DEFAULT_URL, database_url, make_engine, sqlite_url
from svcserver.kernel.envfile import change
from svcserver.kernel.settings import BadSetting, parse_env_file
from svcserver.metagame.accounts.store import add_game_server_key


def opened(source: Path, lock: BackupLock, into: Path) -> Contents:
    """Decrypt and unpack a backup; raises DamagedBackup, CannotSeal or OSError."""
    into.mkdir(mode=0o700)
    if not is_closed(source):
        return archive.unpack(source, into)
    clear = into.parent / "clear.tar.gz"
    os.close(os.open(clear, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        lock.open(source, clear)
        return archive.unpack(clear, into)
    finally:
        clear.unlink()


def same(contents: Contents, url: URL) -> None:
    """Raise DamagedBackup if the restored database at ``url`` does not match ``contents``."""
    present, expected = count(url), contents.counted
    for table, rows in expected.tables.items():
        if present.tables.get(table) != rows:
            raise DamagedBackup(
                f"the table {table} has {present.tables.get(table, 0)} rows instead of {rows}"
            )
    if present.characters != expected.characters:
        raise DamagedBackup("the players' characters differ from the original")


LOCALHOST = "127.0.0.1"
DUMP = "restored.dump"  # PostgreSQL's dump in a restored folder
MOST_TOLD = 10  # maximum number of files that are listed
HOST = "host"  # in the work folder, until the host is complete


def into_place(source: Path, lock: BackupLock, host: Host, out: Out, *, stop: bool = False) -> None:
    """Replace the host's database with that of a backup; the previous database is kept.

    If the host is running and ``stop`` is true, the host is stopped after the backup was checked.
    If the host is running and ``stop`` is false, raises Failed.
    """
    url = database.url_of(host)
    if url.get_backend_name() == "postgresql":
        postgres.needs(*postgres_restore.PROGRAMS)  # before the backup is unpacked
    if not stop:
        running.refuse_running(host, url)  # before the backup is unpacked
    with _parts(source, lock, url) as (contents, parts):
        _kinds(contents, url)
        restored, file = parts / archive.DATABASE, database.file_of(url)
        if file is not None:
            _sound(contents, restored)
        with running.stopped(host, url, out, stop_it=stop):
            if file is None:
                previous = postgres_restore.put_back(restored, url, host.path(""), out.text)
            else:
                previous = put_back(restored, file)
            bring_up(url, previous)
    out.data({"restored": str(source), "kept": str(previous) if previous else None})
    out.text(
        f"restored from {source}"
        + (f"; the previous database is in {previous}" if previous else "")
    )


@frozen
class RestoreOutcome:
    """The result of a restore into a folder, for the command's output."""

    kind: str  # the kind of database: sqlite or postgresql
    made_anew: tuple[str, ...]
    missing: tuple[str, ...]  # settings for which the backup has no value
    left_out: tuple[str, ...]  # files neither in the backup nor created anew


def into_folder(source: Path, lock: BackupLock, folder: Path, out: Out) -> None:
    """Restore the backed-up host into ``folder``, which must be empty.

    Secrets that the backup does not contain are created anew. Players keep their keys, but need a
    new invite and must log in again. If a restore was interrupted, the same command repeats all
    steps.
    """
    with _readable(source):
        note = Begun(str(folder), str(source.absolute()), archive.digest_of(source))
    with _writable(folder), begun.locked(folder):
        is_first = _claim(folder, note)
        with ExitStack() as undo:
            undo.callback(begun.clear, folder, note=is_first)
            done = _made(source, lock, folder)
            undo.pop_all()  # from here on, files may be in place
        begun.place(folder / begun.WORK / HOST, folder)
        begun.clear(folder)
    _print_outcome(done, source, folder, out)


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as why:
        fail(
            f"{folder} cannot be written: {why.strerror or why}; solve this problem, or choose "
            "another folder"
        )


def _claim(folder: Path, note: Begun) -> bool:
    """Write the marker for this restore; return False if an earlier command wrote the marker."""
    before = begun.read_marker(folder)
    if before is None:
        if there := begun.others(folder):
            fail(
                f"{folder} is not empty: it contains {there[0]}. A restore overwrites no "
                "files. Choose another folder."
            )
    elif before.sha256 != note.sha256:
        fail(before.cure(folder))
    note.write(folder)
    return before is None


def _made(source: Path, lock: BackupLock, folder: Path) -> RestoreOutcome:
    """Restore the backup into a work folder inside ``folder``."""
    begun.clear(folder, note=False)
    parts, at = folder / begun.WORK / "parts", folder / begun.WORK / HOST
    parts.parent.mkdir(mode=0o700)
    with _sound_backup(source):
        contents = opened(source, lock, parts)
        if f"{archive.FILES}metagame.env" not in contents.files:
            raise DamagedBackup("the file has no metagame.env, so it is not the backup of a host")
        made_anew = restored(contents, parts, at, folder)
        missing = () if contents.secrets else _missing(parts / archive.FILES, at)
        _room_for_the_game(at, folder)
    return RestoreOutcome(contents.kind, made_anew, missing, _left_out(contents, at))


def _print_outcome(done: RestoreOutcome, source: Path, folder: Path, out: Out) -> None:
    fresh = done.made_anew
    result = {"secrets": not fresh, "made_anew": list(fresh), "missing": list(done.missing)}
    out.data({"folder": str(folder), **result, "left_out": list(done.left_out)})
    out.text(f"the host of {source} is in {folder}")
    if fresh:
        out.text("created anew, because the backup has no secrets: " + ", ".join(fresh))
        out.text(
            "Your account key is unchanged. "
            f"If {OWNER_KEY} is lost, run svcctl account new-key NAME."
        )
    if done.missing:
        out.text("Set these again, because they are not in the backup: " + ", ".join(done.missing))
    if done.left_out:
        more = f" and {len(done.left_out) - MOST_TOLD} more" * (len(done.left_out) > MOST_TOLD)
        named = ", ".join(done.left_out[:MOST_TOLD])
        out.text(f"these files were left out of the backup: {named}{more}")
    config = config_of(folder)
    if done.kind != "sqlite":
        if fresh:
            out.text(
                f"DATABASE_URL was not in the backup: write it into {folder / 'metagame.env'} first"
            )
        out.text(f"its {done.kind} database is in {folder / DUMP}.")
        out.text("If the server has lost this database,")
        dump = shlex.quote(str(folder / DUMP))
        out.text(f"run svcctl db restore {dump} {config}")
    out.text(f"check it with svcctl doctor {config}")


def _room_for_the_game(at: Path, folder: Path) -> None:
    """Create the game folder as ``svcctl init`` does, because no backup contains the game files."""
    if not (at / "content.env").is_file():
        return
    named = Host(at).variables("content").get("CONTENT_GAME_DIR", "")
    game = _staged(folder / (named or "game"), at, folder)
    if game is not None and not game.exists():
        game.mkdir(parents=True)
        (game / OWNERS_NOTE).write_text(README, encoding="utf-8")


def _staged(path: Path, at: Path, folder: Path) -> Path | None:
    """Return the temporary path for a file below ``folder``; None for a path outside ``folder``."""
    path = Path(os.path.normpath(path))
    return at / path.relative_to(folder) if folder in path.parents else None


def restored(contents: Contents, parts: Path, at: Path, folder: Path) -> tuple[str, ...]:
    """Write all files of the backed-up host into the folder ``at``.

    The caller later moves the files to ``folder``, so the paths in the settings begin with
    ``folder``. If the backup has no secrets, creates new secrets and returns their names. Raises
    DamagedBackup or OSError.
    """
    if contents.kind == "sqlite":
        _sound(contents, parts / archive.DATABASE)
    at.mkdir(mode=0o700, parents=True, exist_ok=True)
    if contents.secrets:
        _whole(contents, parts, at, folder)
        return ()
    return _fresh(contents, parts, at, folder)


@contextmanager
def _parts(source: Path, lock: BackupLock, url: URL) -> Iterator[tuple[Contents, Path]]:
    """Unpack the backup for the ``with`` block; yield its contents and the folder of its parts.

    Raises Failed if the backup cannot be used; nothing has been changed then. Leftovers of killed
    restores and restore tests are removed first.
    """
    with _readable(source), _sound_backup(source), scratch(url) as folder:
        parts = folder / "parts"
        contents = opened(source, lock, parts)
        yield contents, parts


@contextmanager
def _sound_backup(source: Path) -> Iterator[None]:
    try:
        yield
    except (DamagedBackup, CannotSeal) as why:
        fail(f"{source}: {why}; nothing was changed")
    except UnicodeDecodeError:
        fail(f"the settings in {source} are not UTF-8 text; nothing was changed")
    except (BadSetting, ValueError) as why:  # settings that this program did not write
        problem = repr(str(why)[:200])
        fail(f"the settings in {source} cannot be read: {problem}; nothing was changed")


@contextmanager
def _readable(source: Path) -> Iterator[None]:
    try:
        yield
    except OSError as why:
        fail(f"{source} cannot be restored: {why.strerror or why}")


def _kinds(contents: Contents, url: URL) -> None:
    if contents.kind != url.get_backend_name():
        fail(
            f"the backup contains a {contents.kind} database, but this host's DATABASE_URL names "
            f"a {url.get_backend_name()} database. Restore the backup into a new folder with "
            "--into DIR. Then use svcctl db copy to copy the restored database into a new "
            f"{url.get_backend_name()} database."
        )


def _sound(contents: Contents, restored: Path) -> None:
    if faults := sqlite_faults(restored):
        raise DamagedBackup(f"the backup's database is damaged: {faults[0]}")
    if has_foreign_code(restored):
        raise DamagedBackup(FOREIGN_CODE)
    same(contents, URL.create("sqlite", database=str(restored)))


def _whole(contents: Contents, parts: Path, at: Path, folder: Path) -> None:
    """Restore all files; in the settings, replace the old folder's path by the new folder's."""
    shutil.copytree(parts / archive.FILES, at, dirs_exist_ok=True)
    for path in at.glob("*.env"):
        # bytes that are not UTF-8 are not changed
        text = path.read_text("utf-8-sig", "surrogateescape")
        path.write_text(_moved(contents, text, folder), "utf-8", "surrogateescape")
    components = [name for name in SERVICES if (at / f"{name}.env").is_file()]
    write_units(at, folder, folder, components)  # the units in the backup refer to the old folder
    if (at / LAUNCHER / OWNERS_NOTE).is_file():  # the note refers to the old folder, too
        write_launcher_note(at / LAUNCHER, folder)
    _place_database(contents, parts, at, folder)


def _moved(contents: Contents, text: str, folder: Path) -> str:
    """Return the text with the old folder's paths replaced by those of the new folder."""
    old = sorted({contents.folder, contents.data}, key=len, reverse=True)
    either = "|".join(re.escape(path) for path in old)
    return re.sub(rf"(?<![\w.-])(?:{either})(?![\w.-])", lambda _: str(folder), text)


def _place_database(contents: Contents, parts: Path, at: Path, folder: Path) -> Path:
    """Move the restored database into the host's folder; return its new path."""
    if contents.kind != "sqlite":
        return Path(shutil.move(parts / archive.DATABASE, at / DUMP))
    env = at / "metagame.env"
    named = parse_env_file(env.read_text(encoding="utf-8-sig")).get("DATABASE_URL")
    name = database.file_of(database_url(named or DEFAULT_URL)) or Path(DATABASE)
    file = _staged(folder / name, at, folder)
    if file is None or file.exists():
        file = at / DATABASE
        change(env, {"DATABASE_URL": sqlite_url(folder / DATABASE)})
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(parts / archive.DATABASE, file)
    migrate_restored(URL.create("sqlite", database=str(file)))
    return file


def _fresh(contents: Contents, parts: Path, at: Path, folder: Path) -> tuple[str, ...]:
    """Create a new host with the non-secret settings from the backup."""
    files = parts / archive.FILES
    stored = {path.name: _read(path) for path in sorted(files.glob("*.env"))}
    private = "gateway.env" not in stored
    relay = stored.get("relay.env", {})
    address = relay.get("SVC_RELAY_HOST") or stored.get("metagame.env", {}).get("BIND_HOST")
    fingerprint = write_ownerless(at, folder, address or LOCALHOST, private=private)
    for name, values in stored.items():
        _settle(contents, at / name, values, folder)
    for path in sorted(files.rglob("*")):
        goal = at / path.relative_to(files)
        if path.is_file() and not goal.exists():
            goal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy(path, goal)
    file = _place_database(contents, parts, at, folder)
    if contents.kind == "sqlite":
        _let_in(at, file)
    else:
        change(at / "metagame.env", {"DATABASE_URL": database.UNNAMED})
    certificate = [] if fingerprint is None else ["the gateway's certificate"]
    return ("the keys that sign tokens", "the components' shared secrets", *certificate)


def _settle(contents: Contents, path: Path, values: Mapping[str, str], folder: Path) -> None:
    """Write a component's settings from the backup into the settings of the new host."""
    if not path.exists():
        write_private(path, "")
    settings = {name: _moved(contents, value, folder) for name, value in values.items() if value}
    settings.pop("AUTH_SIGNING_PUBKEY_B64", None)
    if path.name == "relay.env":
        settings.pop("SVC_RELAY_FINGERPRINT", None)
    change(path, settings)


def _missing(files: Path, at: Path) -> tuple[str, ...]:
    """Return the settings that are still empty because the backup contains no secrets."""
    return tuple(
        f"{name} in {stored.name}"
        for stored in sorted(files.glob("*.env"))
        for name, value in _read(stored).items()
        if not value and (is_secret(stored.stem, name) or name.endswith("URL"))
        if not _read(at / stored.name).get(name)
    )


def _left_out(contents: Contents, at: Path) -> tuple[str, ...]:
    """Return the files that the backup left out and that the new host does not have."""
    made = {str(path.relative_to(at)) for path in at.rglob("*")}
    return tuple(name for name in contents.left_out if name not in {*made, OWNER_KEY})


def _read(path: Path) -> Mapping[str, str]:
    return parse_env_file(path.read_text(encoding="utf-8-sig"))


def _let_in(at: Path, file: Path) -> None:
    """Register the new host's game-server key in the restored database."""
    key = Host(at).variables("deploy").get("METAGAME_API_KEY", "")
    if key:
        with database.transaction(make_engine(URL.create("sqlite", database=str(file)))) as tx:
            add_game_server_key(tx, key)
