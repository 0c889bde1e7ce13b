"""Writes a host's folder, completely or not at all, and never over existing files.

The files are written first, the owner's key among them; then the database learns of that key; then
the files are moved into place. ``staging`` says what a stop in between leaves.
"""

from __future__ import annotations

import os
import secrets
import shlex
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import field, frozen
from sqlalchemy.engine import URL

from svcserver.content.manifest_builder import OWNERS_NOTE, BuildFailed, build_manifest
from svcserver.ctl import blueprint, staging, units
from svcserver.ctl.blueprint import Plan, Ports, Scale
from svcserver.ctl.database import file_of, transaction
from svcserver.ctl.host import OWNER_KEY
from svcserver.ctl.keys import new_signing_keys
from svcserver.ctl.output import fail
from svcserver.ctl.staging import Note, Origin, Staged
from svcserver.ctl.stopping import stoppable
from svcserver.db import migrations
from svcserver.db.engine import (
    BadDatabase,
    SQLAlchemyError,
    database_url,
    describe,
    make_engine,
)
from svcserver.db.suitable import refuse_unsuitable
from svcserver.db.transaction import transaction as short_transaction
from svcserver.edge.certificate import BadCertificate, Pair, make_pair, write_pair
from svcserver.kernel.ids import new_account_id
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.secrets import Secret, hex_token
from svcserver.kernel.settings import parse_env_file
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.store import (
    SqlAccounts,
    add_game_server_key,
    is_anothers,
    knows_key,
)

DATABASE = "svc.db"
LIVE_CONFIG = "live.conf"  # for the engine of LIVE_URL, where init made its password
UNITS = "host"  # the folder with the systemd units
GAME_FILE_BYTES = 256 * 1024
README = """\
This host has no game files yet. Its owner puts them into this folder and then runs
svcctl content manifest --config DIR, where DIR is the folder with the host's settings.
"""
"""Players get it, too, as long as there is no game: so it names no folder of the owner's."""
LAUNCHER_README = """\
From here the host hands out the players' program, svc-launcher.pyz. It is part of a release:
svcctl content launcher FILE --config {folder}
"""


@frozen
class CreatedHost:
    """What ``svcctl init`` made or finished, for the card that it prints."""

    folder: Path
    owner: str
    fingerprint: str | None  # of the gateway's certificate, where there is a gateway
    address: str  # where players reach it
    database: str = field(repr=False)  # DATABASE_URL, perhaps with a password
    gateway_port: str  # empty where there is no gateway
    my_ip: str  # MY_IP in deploy.env; empty where it could not be found out
    is_finished: bool = False  # an earlier command began it, by options of its own

    @classmethod
    def of(cls, folder: Path, note: Note, *, is_finished: bool = False) -> CreatedHost:
        """What its files say, which may be those of an earlier command with other options."""
        metagame, private = _values(folder, "metagame"), note.fingerprint is None
        return cls(
            folder,
            note.owner,
            note.fingerprint,
            metagame["BIND_HOST"] if private else _values(folder, "relay")["SVC_RELAY_HOST"],
            metagame["DATABASE_URL"],
            "" if private else _values(folder, "gateway")["GATEWAY_PORT"],
            _values(folder, "deploy")["MY_IP"],
            is_finished,
        )


def create_host(
    folder: Path,
    host: str,
    owner: str,
    *,
    ports: Ports | None = None,
    demo: bool = False,
    private: bool = False,
    scale: Scale | None = None,
    data: Path | None = None,
    shared: bool = False,
) -> CreatedHost:
    """Write a ready-to-run host into ``folder``; fails with one line, leaving nothing behind.

    ``host`` is the address or name that players connect to; ``private``: without a gateway.
    ``data``: another folder for the database, the game's files and what the services write.
    ``shared``: the database may be that of another host.
    """
    folder, data, name = whole_path(folder), whole_path(data or folder), owner_name(owner)
    with stoppable(), _one_line(folder, owner), staging.locked(folder):
        if (earlier := _finished(folder)) is not None:
            return earlier
        pair = None if private else _certificate(host)
        fingerprint = pair.fingerprint if pair else None
        with staging.new(folder, Note(data, name, fingerprint)) as staged:
            plan = Plan(
                folder,
                host,
                _secrets(),
                fingerprint or "",
                ports or Ports(),
                demo,
                private,
                scale or Scale(),
                data,
            )
            _write(staged.settings, staged.data, plan, pair)
            return _finish(staged, shared)


def write_ownerless(at: Path, folder: Path, host: str, *, private: bool) -> str | None:
    """Write the files of a new host for ``folder`` into ``at``, but for owner and database.

    Returns the fingerprint of its certificate, where there is a gateway.
    """
    with _one_line(folder, ""):
        pair = None if private else _certificate(host)
        fingerprint = pair.fingerprint if pair else None
        plan = Plan(folder, host, _secrets(), fingerprint or "", private=private)
        _write(at, at, plan, pair)
        for name in (OWNER_KEY, DATABASE):
            (at / name).unlink()
    return fingerprint


def finish_begun(folder: Path) -> CreatedHost | None:
    """The host that an earlier command began in ``folder``, finished; None where there is none.

    Fails with one line, as ``create_host`` does.
    """
    if not folder.is_dir():
        return None
    folder = whole_path(folder)
    with stoppable(), _one_line(folder, ""), staging.locked(folder):
        return _finished(folder)


def _finished(folder: Path) -> CreatedHost | None:
    """The host that was begun there, if its database knows its owner; else it is discarded."""
    with staging.begun(folder) as found:
        if found is None:
            return None
        if found.note.origin is not None and not found.is_untouched():
            fail(begun_by_a_restore(found, found.note.origin))
        if found.note.origin is not None or not _is_registered(found):
            found.discard()
            return None
        staging.tell_of_finishing(folder)
        return _place(found, is_finished=True)


def begun_by_a_restore(staged: Staged, origin: Origin) -> str:
    """One line: how a restored host, some of whose files are in place, is finished or given up."""
    file, folder = shlex.quote(origin.file), shlex.quote(str(staged.goal))
    return (
        f"the restore of {origin.file} was begun in {staged.goal}: finish it with "
        f"svcctl backup restore {file} --into {folder}, or empty that folder to give it up"
    )


def _finish(staged: Staged, shared: bool) -> CreatedHost:
    """Register the owner of a host whose files are written, and move those into place."""
    staged.need_room()  # before the database knows of a host that is none
    _register(staged, shared)
    return _place(staged)


def _place(staged: Staged, *, is_finished: bool = False) -> CreatedHost:
    staged.place()
    return CreatedHost.of(staged.goal, staged.note, is_finished=is_finished)


@contextmanager
def _one_line(folder: Path, owner: str) -> Iterator[None]:
    try:
        yield
    except (BadCertificate, BadDatabase, BuildFailed) as why:
        fail(f"{folder}: {why}")
    except Refusal as why:
        fail(f"--owner {owner}: {why.message}; the database knows that name already")
    except OSError as why:
        fail(f"{folder} cannot be written: {why.strerror}")


def whole_path(folder: Path) -> Path:
    """The whole path of a host's folder, as its settings name it; fails where none can.

    A link stays, since it may be there to lead elsewhere one day; but a folder that was only gone
    through (``../game``) may be gone tomorrow. A line of an env file is read as text, and stripped.
    """
    path = folder.resolve() if ".." in folder.parts else folder.absolute()
    if not str(path).isprintable() or str(path) != str(path).strip():
        fail(
            f"{str(path)!a} has a line break, another character that cannot be printed or a "
            "blank at its end, which no setting can name: choose another folder"
        )
    return path


def owner_name(owner: str) -> str:
    """The owner's name by the rules of user names; a bad one ends the command."""
    try:
        return rules.username(owner)
    except Refusal as why:
        fail(f"--owner {owner}: {why.message}")


def _certificate(host: str) -> Pair:
    return make_pair(list(dict.fromkeys([host, "127.0.0.1", "localhost"])))


def _secrets() -> blueprint.Secrets:
    return blueprint.Secrets(
        gateway=Secret(hex_token(64)),
        allowlist=Secret(hex_token(64)),
        game_server=Secret(hex_token(64)),
        signing=new_signing_keys(),
    )


def _write(staged: Path, kept: Path, plan: Plan, pair: Pair | None) -> None:
    """Write all files into the staging folders: of settings, and of data."""
    if pair is not None:
        write_pair(pair, staged)
    for name, text in blueprint.files(plan).items():
        write_private(staged / name, text)
    game = kept / "game"
    game.mkdir()
    (game / OWNERS_NOTE).write_text(README, encoding="utf-8")
    if plan.demo:
        (game / "data.pak").write_bytes(secrets.token_bytes(GAME_FILE_BYTES))
    launcher = kept / blueprint.LAUNCHER
    launcher.mkdir()
    write_launcher_note(launcher, plan.folder)
    build_manifest(game, "1.4.4", kept / "manifest.json")
    if not plan.scale.database:
        write_private(kept / DATABASE, "")  # SQLite keeps the mode of the file it finds
    write_private(staged / OWNER_KEY, rules.new_account_key() + "\n")
    if plan.scale.live_password:
        text = f"requirepass {plan.scale.live_password}\nmaxmemory-policy noeviction\n"
        write_private(staged / LIVE_CONFIG, text)
    write_units(staged, plan.folder, plan.data, plan.components)


def write_launcher_note(launcher: Path, folder: Path) -> None:
    """Say in the launcher's folder how it comes there, for the host whose place is ``folder``."""
    told = LAUNCHER_README.format(folder=shlex.quote(str(folder)))
    (launcher / OWNERS_NOTE).write_text(told, encoding="utf-8")


def write_units(at: Path, folder: Path, data: Path, components: Iterable[str]) -> None:
    """Write the systemd units of the host whose place is ``folder`` into ``at``."""
    run_by, python = at / UNITS, Path(sys.executable)
    run_by.mkdir(exist_ok=True)
    place = units.Place(folder, python.with_name("twistd"), python.resolve(), data)
    for name, text in units.files(place, components).items():
        (run_by / name).write_text(text, encoding="utf-8")


def _register(staged: Staged, shared: bool) -> None:
    """Make the database with the owner's account."""
    key = _key(staged)
    game_server = _values(staged.settings, "deploy")["METAGAME_API_KEY"]
    engine = make_engine(_url(staged))
    with suppress(SQLAlchemyError):  # the transaction says what is wrong
        refuse_unsuitable(engine)
    with transaction(engine) as tx:  # while a stop still leaves nothing
        if not shared and is_anothers(tx, key):  # before anything of it is changed
            fail(
                f"the database {_url(staged).render_as_string()} has accounts, so it is another "
                "host's: nothing was changed. A host of its own wants another database: name it by "
                "SVC_DATABASE_URL or --database, or leave both out for a file. One more host on "
                "this database wants --share-database. Where it is this host's and its folder "
                "was lost, put that back: "
                f"svcctl backup restore FILE --into {shlex.quote(str(staged.goal))}"
            )
    staged.complete()
    engine = make_engine(_url(staged))
    migrations.upgrade(engine)
    with transaction(engine) as tx:
        accounts = SqlAccounts(tx)
        rules.check_free(accounts, staged.note.owner)
        owner = Account(new_account_id(), staged.note.owner, is_admin=True)
        accounts.add(owner, key, time.time())
        add_game_server_key(tx, game_server)
        staged.kept = True  # from here on it may be committed, whatever becomes of this process


def _is_registered(staged: Staged) -> bool:
    """Whether the database knows the owner of a host that was begun; fails where it cannot say."""
    if staged.is_placed():
        return True
    url = _url(staged)
    file = file_of(url)
    if file is not None and not file.exists():
        return False  # a look is not to make one
    engine = make_engine(url)
    try:
        with short_transaction(engine) as tx:
            return knows_key(tx, _key(staged))
    except SQLAlchemyError as why:
        fail(
            f"a host was begun in {staged.goal}, and its database {url.render_as_string()} cannot "
            f"say whether it knows the owner: {describe(why)}; repeat this when it answers, or "
            f"give that host up: rm -r {staged.folders}"
        )
    finally:
        engine.dispose()


def _key(staged: Staged) -> str:
    return (staged.settings / OWNER_KEY).read_text(encoding="utf-8").strip()


def _url(staged: Staged) -> URL:
    """The database: the one that was asked for, or the new file among the staged ones."""
    file = staged.data / DATABASE
    if file.exists():
        return URL.create("sqlite", database=str(file))
    return database_url(_values(staged.settings, "metagame")["DATABASE_URL"])


def _values(folder: Path, component: str) -> dict[str, str]:
    return parse_env_file((folder / f"{component}.env").read_text(encoding="utf-8"))


def write_private(path: Path, text: str) -> None:
    """Create a file with mode 0600; raises OSError where it exists."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
