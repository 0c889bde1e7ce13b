"""Writes a host's folder, completely or not at all, and never over existing files."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import time
from pathlib import Path

from attrs import frozen
from sqlalchemy.engine import URL

from svcserver.content.manifest_builder import BuildFailed, build_manifest
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
Put the game's files here, then run: svcctl content manifest . --config ..
"""


@frozen
class CreatedHost:
    """A host that was written."""

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
) -> CreatedHost:
    """Write a ready-to-run host into ``folder``; fails with one line, leaving nothing behind.

    ``host`` is the address or name that players connect to; ``private``: without a gateway.
    """
    folder = folder.absolute()
    name, staged = _stage(folder, owner)
    try:
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
        )
        _write(staged, plan, name, pair)
        _move(staged, folder)
    except (BadCertificate, BadDatabase, BuildFailed) as why:
        fail(f"{folder}: {why}")
    except Refusal as why:
        fail(f"--owner {owner}: {why.message}; the database knows that name already")
    except OSError as why:
        fail(f"{folder} cannot be written: {why.strerror}")
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    my_ip = parse_env_file((folder / "deploy.env").read_text(encoding="utf-8"))["MY_IP"]
    return CreatedHost(folder, name, pair.fingerprint if pair else None, my_ip)


def _stage(folder: Path, owner: str) -> tuple[str, Path]:
    """The owner's name, checked, and an empty folder within ``folder`` to write into."""
    try:
        name = rules.username(owner)
        folder.mkdir(parents=True, exist_ok=True)
        staged = folder / f".new-{hex_token(8)}"
        staged.mkdir(mode=0o700)
    except Refusal as why:
        fail(f"--owner {owner}: {why.message}")
    except OSError as why:
        fail(f"{folder} cannot be written: {why.strerror}")
    return name, staged


def _secrets() -> blueprint.Secrets:
    return blueprint.Secrets(
        gateway=Secret(hex_token(64)),
        allowlist=Secret(hex_token(64)),
        game_server=Secret(hex_token(64)),
        signing=new_signing_keys(),
    )


def _write(staged: Path, plan: Plan, owner: str, pair: Pair | None) -> None:
    """Write all files into the staging folder."""
    if pair is not None:
        write_pair(pair, staged)
    for name, text in blueprint.files(plan).items():
        write_private(staged / name, text)
    game = staged / "game"
    game.mkdir()
    (game / "README.txt").write_text(README, encoding="utf-8")
    if plan.demo:
        (game / "data.pak").write_bytes(secrets.token_bytes(GAME_FILE_BYTES))
    build_manifest(game, "1.4.4", staged / "manifest.json")
    key = _database(_url(staged, plan), owner, plan.secrets.game_server)
    write_private(staged / OWNER_KEY, key + "\n")
    run_by = staged / UNITS
    run_by.mkdir()
    python = Path(sys.executable)
    place = units.Place(plan.folder, python.with_name("twistd"), python.resolve())
    for name, text in units.files(place, plan.components).items():
        (run_by / name).write_text(text, encoding="utf-8")


def _url(staged: Path, plan: Plan) -> URL:
    """The database: that of ``plan``, or a new file in the staging folder."""
    if plan.scale.database:
        return database_url(plan.scale.database)
    file = staged / DATABASE
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


def _move(staged: Path, folder: Path) -> None:
    """Move everything into place; fails where any of the names exists."""
    names = sorted(one.name for one in staged.iterdir())
    taken = [name for name in names if os.path.lexists(folder / name)]
    if taken:
        fail(f"{folder} already holds {taken[0]}; nothing was changed: choose another folder")
    for name in names:
        (staged / name).rename(folder / name)
