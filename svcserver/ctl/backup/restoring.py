"""Restores a backup: its database into a host, or all of it into a new folder."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import URL

from svcserver.content.manifest_builder import OWNERS_NOTE
from svcserver.ctl import database, postgres, postgres_restore, staging
from svcserver.ctl.backup import archive
from svcserver.ctl.backup.archive import Contents, Damaged
from svcserver.ctl.backup.opening import opened, same
from svcserver.ctl.backup.sealing import CannotSeal, Lock
from svcserver.ctl.database_commands import bring_up, migrate, put_back, sqlite_faults
from svcserver.ctl.envfile import change
from svcserver.ctl.host import OWNER_KEY, Host
from svcserver.ctl.host_creation import DATABASE, README, create_host, write_private
from svcserver.ctl.output import Out, config_of, fail
from svcserver.db.engine import DEFAULT_URL, database_url
from svcserver.kernel.settings import parse_env_file
from svcserver.metagame.accounts.store import add_game_server_key

LOCALHOST = "127.0.0.1"
DUMP = "restored.dump"  # of a PostgreSQL, in a restored folder


def into_place(source: Path, lock: Lock, host: Host, out: Out) -> None:
    """Put the backup's database in the place of the host's; what was there is kept."""
    url = database.url_of(host)
    if url.get_backend_name() == "postgresql":
        postgres.needs(*postgres_restore.PROGRAMS)  # not only once all is unpacked
    with _parts(source, lock) as (contents, parts):
        _kinds(contents, url)
        restored, file = parts / archive.DATABASE, database.file_of(url)
        if file is None:
            kept = postgres_restore.put_back(restored, url, host.path(""), out.say)
        else:
            _sound(contents, restored)
            kept = put_back(restored, file)
        bring_up(url, kept)
    out.data({"restored": str(source), "kept": str(kept) if kept else None})
    out.say(f"restored from {source}" + (f"; what was there is in {kept}" if kept else ""))


def into_folder(source: Path, lock: Lock, folder: Path, out: Out) -> None:
    """Make the host of the backup in ``folder``, which holds nothing yet.

    Secrets that the backup does not hold are made anew: players keep their keys, but need a new
    invite for the new certificate, and must log in again.
    """
    _empty(folder)
    with _parts(source, lock) as (contents, parts):
        try:
            with _nothing_by_halves(folder):
                fresh = restored(contents, parts, folder)
                _room_for_the_game(folder)
        except OSError as why:
            fail(f"{folder} cannot be written: {why.strerror or why}")
    out.data({"folder": str(folder), "secrets": contents.secrets, "made_anew": list(fresh)})
    out.say(f"the host of {source} is in {folder}")
    if fresh:
        out.say("made anew, since the backup holds no secrets: " + ", ".join(fresh))
    config = config_of(folder)
    if contents.kind != "sqlite":
        if fresh:
            out.say(f"its DATABASE_URL was a secret: write it into {folder / 'metagame.env'} first")
        out.say(f"its {contents.kind} database is in {folder / DUMP}: unless it is still where it")
        dump = shlex.quote(str(folder / DUMP))
        out.say(f"was, put it back with svcctl db restore {dump} {config}")
    out.say(f"look at it with svcctl doctor {config}")


def _empty(folder: Path) -> None:
    """Fail unless nothing is in the folder but what ``svcctl init`` left in pieces, which goes."""
    if not folder.exists():
        return
    try:
        staging.clear(folder)
        found = any(folder.iterdir())
    except OSError as why:
        fail(f"{folder} cannot be used: {why.strerror}; choose another folder")
    if found:
        fail(f"{folder} is not empty; a restore overwrites nothing: choose another folder")


@contextmanager
def _nothing_by_halves(folder: Path) -> Iterator[None]:
    """Empty the folder again where the body fails: half a host would be started as one."""
    try:
        yield
    except BaseException:
        for one in folder.iterdir() if folder.exists() else ():
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one, ignore_errors=True)
            else:
                one.unlink(missing_ok=True)
        raise


def _room_for_the_game(folder: Path) -> None:
    """The folder for the game, which no backup holds, as ``svcctl init`` makes it."""
    if not (folder / "content.env").is_file():
        return
    named = Host(folder).variables("content").get("CONTENT_GAME_DIR", "")
    game = folder / (named or "game")
    if folder in game.parents and not game.exists():
        game.mkdir(parents=True)
        (game / OWNERS_NOTE).write_text(README, encoding="utf-8")


def restored(contents: Contents, parts: Path, folder: Path) -> tuple[str, ...]:
    """Make the host of an unpacked backup; what was made anew. Raises Damaged or OSError."""
    if contents.kind == "sqlite":
        _sound(contents, parts / archive.DATABASE)
    if contents.secrets:
        _whole(contents, parts, folder)
        return ()
    return _fresh(contents, parts, parts / archive.FILES, folder)


@contextmanager
def _parts(source: Path, lock: Lock) -> Iterator[tuple[Contents, Path]]:
    """The unpacked backup; a fault is one line, and nothing was touched."""
    try:
        with tempfile.TemporaryDirectory(prefix="svc-restore-") as text_folder:
            parts = Path(text_folder) / "parts"
            contents = opened(source, lock, parts)
            yield contents, parts
    except (Damaged, CannotSeal) as why:
        fail(f"{source}: {why}; nothing was touched")
    except OSError as why:
        fail(f"{source} cannot be restored: {why.strerror or why}")


def _kinds(contents: Contents, url: URL) -> None:
    if contents.kind != url.get_backend_name():
        fail(
            f"the backup is of {contents.kind}, DATABASE_URL of {url.get_backend_name()}; "
            "restore it with --into DIR, and move it with svcctl db copy"
        )


def _sound(contents: Contents, restored: Path) -> None:
    if faults := sqlite_faults(restored):
        raise Damaged(f"its database is damaged: {faults[0]}")
    same(contents, URL.create("sqlite", database=str(restored)))


def _whole(contents: Contents, parts: Path, folder: Path) -> None:
    """Everything as it was, with the paths of the new folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copytree(parts / archive.FILES, folder, dirs_exist_ok=True)
    for path in folder.glob("*.env"):
        path.write_text(_moved(contents, path.read_text(encoding="utf-8-sig"), folder), "utf-8")
    _place_database(contents, parts, folder)


def _moved(contents: Contents, text: str, folder: Path) -> str:
    """``text`` with the paths of the new folder."""
    for old in sorted({contents.folder, contents.data}, key=len, reverse=True):
        text = text.replace(old, str(folder))
    return text


def _place_database(contents: Contents, parts: Path, folder: Path) -> None:
    """Put the database where ``metagame.env`` says, if that is in the new folder."""
    if contents.kind != "sqlite":
        shutil.move(parts / archive.DATABASE, folder / DUMP)
        return
    env = folder / "metagame.env"
    named = parse_env_file(env.read_text(encoding="utf-8-sig")).get("DATABASE_URL")
    file = database.file_of(database_url(named or DEFAULT_URL)) or Path(DATABASE)
    file = folder / file
    if folder not in file.parents or file.exists():
        file = folder / DATABASE
        change(env, {"DATABASE_URL": f"sqlite:///{file}"})
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(parts / archive.DATABASE, file)
    migrate(URL.create("sqlite", database=str(file)))


def _fresh(contents: Contents, parts: Path, files: Path, folder: Path) -> tuple[str, ...]:
    """A new host with the settings of the backup, where those are no secrets."""
    stored = {one.name: _read(one) for one in sorted(files.glob("*.env"))}
    private = "gateway.env" not in stored
    relay = stored.get("relay.env", {})
    address = relay.get("SVC_RELAY_HOST") or stored.get("metagame.env", {}).get("BIND_HOST")
    made = create_host(folder, address or LOCALHOST, _owner(), private=private)
    for name, values in stored.items():
        path = folder / name
        if not path.exists():
            write_private(path, "")
        kept = {key: _moved(contents, value, folder) for key, value in values.items() if value}
        if name == "relay.env":
            kept.pop("SVC_RELAY_FINGERPRINT", None)
        change(
            path, {key: value for key, value in kept.items() if key != "AUTH_SIGNING_PUBKEY_B64"}
        )
    for path in sorted(files.rglob("*")):
        goal = folder / path.relative_to(files)
        if path.is_file() and not goal.exists():
            goal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy(path, goal)
    (folder / OWNER_KEY).unlink()
    (folder / DATABASE).unlink()
    _place_database(contents, parts, folder)
    if contents.kind == "sqlite":
        _let_in(folder)
    else:
        change(folder / "metagame.env", {"DATABASE_URL": database.UNNAMED})
    certificate = [] if made.fingerprint is None else ["the gateway's certificate"]
    key = f"{OWNER_KEY} (svcctl account new-key NAME)"
    return ("the keys that sign tokens", "the components' shared secrets", *certificate, key)


def _read(path: Path) -> Mapping[str, str]:
    return parse_env_file(path.read_text(encoding="utf-8-sig"))


def _owner() -> str:
    """The account of the new host's own database, which is not kept."""
    return f"restore_{secrets.token_hex(3)}"


def _let_in(folder: Path) -> None:
    """Register the new host's key for game servers with the restored database."""
    host = Host(folder)
    key = host.variables("deploy").get("METAGAME_API_KEY", "")
    if key:
        database.transact(host, lambda tx: add_game_server_key(tx, key))
    os.chmod(folder, 0o700)
