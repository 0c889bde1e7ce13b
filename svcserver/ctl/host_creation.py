"""Writes a host's folder, completely or not at all, and never over existing files."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen
from sqlalchemy.engine import URL

from svcserver.content.manifest_builder import OWNERS_NOTE, BuildFailed, build_manifest
from svcserver.ctl import blueprint, units
from svcserver.ctl.blueprint import Plan, Ports, Scale
from svcserver.ctl.database import transaction
from svcserver.ctl.host import OWNER_KEY
from svcserver.ctl.keys import new_signing_keys
from svcserver.ctl.output import fail
from svcserver.db import migrations
from svcserver.db.engine import BadDatabase, database_url, make_engine
from svcserver.edge.certificate import BadCertificate, Pair, make_pair, write_pair
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.secrets import Secret, hex_token
from svcserver.kernel.settings import parse_env_file
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.store import SqlAccounts, add_game_server_key

DATABASE = "svc.db"
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
    """What ``svcctl init`` made, for the card that it prints."""

    folder: Path
    owner: str
    fingerprint: str | None  # of the gateway's certificate, where there is a gateway
    my_ip: str = ""  # MY_IP in deploy.env; empty where it could not be found out


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
) -> CreatedHost:
    """Write a ready-to-run host into ``folder``; fails with one line, leaving nothing behind.

    ``host`` is the address or name that players connect to; ``private``: without a gateway.
    ``data``: another folder for the database, the game's files and what the services write.
    """
    folder, data, name = folder.absolute(), (data or folder).absolute(), _owner(owner)
    with _one_line(folder, owner), _staging(folder, data) as (staged, kept):
        pair = None if private else make_pair(list(dict.fromkeys([host, "127.0.0.1", "localhost"])))
        plan = Plan(
            folder,
            host,
            _secrets(),
            pair.fingerprint if pair else "",
            ports or Ports(),
            demo,
            private,
            scale or Scale(),
            data,
        )
        _write(staged, kept, plan, name, pair)
        _move({staged: folder, kept: data})
    return CreatedHost(folder, name, pair.fingerprint if pair else None, _my_ip(folder))


@contextmanager
def _staging(folder: Path, data: Path) -> Iterator[tuple[Path, Path]]:
    """Empty folders within these two (one where they are one), removed in the end."""
    with ExitStack() as made:
        staged: dict[Path, Path] = {}
        for one in (folder, data):
            if one not in staged:
                staged[one] = _stage(one)
                made.callback(shutil.rmtree, staged[one], ignore_errors=True)
        yield staged[folder], staged[data]


def _my_ip(folder: Path) -> str:
    return parse_env_file((folder / "deploy.env").read_text(encoding="utf-8"))["MY_IP"]


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


def _owner(owner: str) -> str:
    """The owner's name by the rules of user names; a bad one ends the command."""
    try:
        return rules.username(owner)
    except Refusal as why:
        fail(f"--owner {owner}: {why.message}")


def _stage(folder: Path) -> Path:
    """An empty folder within ``folder`` to write into."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        staged = folder / f".new-{hex_token(8)}"
        staged.mkdir(mode=0o700)
    except OSError as why:
        fail(f"{folder} cannot be written: {why.strerror}")
    return staged


def _secrets() -> blueprint.Secrets:
    return blueprint.Secrets(
        gateway=Secret(hex_token(64)),
        allowlist=Secret(hex_token(64)),
        game_server=Secret(hex_token(64)),
        signing=new_signing_keys(),
    )


def _write(staged: Path, kept: Path, plan: Plan, owner: str, pair: Pair | None) -> None:
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
    told = LAUNCHER_README.format(folder=shlex.quote(str(plan.folder)))
    (launcher / "README.txt").write_text(told, encoding="utf-8")
    build_manifest(game, "1.4.4", kept / "manifest.json")
    key = _database(_url(kept, plan), owner, plan.secrets.game_server)
    write_private(staged / OWNER_KEY, key + "\n")
    run_by = staged / UNITS
    run_by.mkdir()
    python = Path(sys.executable)
    place = units.Place(plan.folder, python.with_name("twistd"), python.resolve(), plan.data)
    for name, text in units.files(place, plan.components).items():
        (run_by / name).write_text(text, encoding="utf-8")


def _url(kept: Path, plan: Plan) -> URL:
    """The database: that of ``plan``, or a new file in the staging folder of data."""
    if plan.scale.database:
        return database_url(plan.scale.database)
    file = kept / DATABASE
    write_private(file, "")  # SQLite keeps the mode of the file it finds
    return URL.create("sqlite", database=str(file))


def _database(url: URL, owner: str, game_server: Secret) -> str:
    """Make the database with the owner's account; returns the account's key."""
    engine = make_engine(url)
    migrations.upgrade(engine)
    with transaction(engine) as tx:
        made = rules.register(SqlAccounts(tx), "OPEN", owner, None, time.time(), is_admin=True)
        add_game_server_key(tx, game_server.reveal())
    return made.key


def write_private(path: Path, text: str) -> None:
    """Create a file with mode 0600; raises OSError where it exists."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def _move(folders: dict[Path, Path]) -> None:
    """Move what was staged into place; fails where any of the names exists."""
    moves = {
        one: folder / one.name
        for staged, folder in folders.items()
        for one in sorted(staged.iterdir())
    }
    for place in moves.values():
        if os.path.lexists(place):
            fail(
                f"{place.parent} already holds {place.name}; "
                "nothing was changed: choose another folder"
            )
    # last the file by which a folder counts as a host (packaging/image/start): a stop in between
    # leaves a folder that is visibly none, instead of a host that lacks some of its files
    for one, place in sorted(moves.items(), key=lambda move: move[0].name == "metagame.env"):
        one.rename(place)
