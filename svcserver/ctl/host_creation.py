"""Writes a host's folder, completely or not at all, and never overwrites existing files.

The files are written first, including the owner's key. Then the database is created with that key.
Finally, ``metagame.env`` is written, which makes the folder a host. ``begun`` handles
interruptions.
"""

import os
import secrets
import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from attrs import frozen

from svcserver.content.manifest_builder import OWNERS_NOTE, BuildFailed, build_manifest
from svcserver.ctl import begun, blueprint, units
from svcserver.ctl.begun import Begun
from svcserver.ctl.blueprint import PRIVATE, SERVER_NAME, Plan, Ports, Scale
from svcserver.ctl.database import transaction
from svcserver.ctl.host import OWNER_KEY
from svcserver.ctl.keys import new_signing_keys
from svcserver.ctl.output import fail, warn
from svcserver.ctl.stopping import stoppable
from svcserver.db import migrations
from svcserver.db.engine import BadDatabase, SQLAlchemyError, database_url, make_engine, sqlite_url
from svcserver.db.suitable import refuse_unsuitable
from svcserver.edge.certificate import CERT_FILE, KEY_FILE, BadCertificate, Pair, make_pair
from svcserver.kernel.ids import new_account_id
from svcserver.kernel.refusals import Refusal
from svcserver.kernel.secrets import Secret, hex_token
from svcserver.kernel.settings import parse_env_file
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.store import SqlAccounts, add_game_server_key, is_anothers

DATABASE = "svc.db"
LIVE_CONFIG = "live.conf"  # for the server of LIVE_URL, if init created its password
UNITS = "host"  # the folder with the systemd units
GAME, MANIFEST = "game", "manifest.json"
SETTINGS = [f"{name}.env" for name in (*PRIVATE, "stack", "gateway", "allowlist", "relay")]
GAME_FILE_BYTES = 256 * 1024
README = """\
This host has no game files yet. Its owner puts them into this folder and then runs
svcctl content manifest --config DIR, where DIR is the folder with the host's settings.
"""
"""Players download this note while there is no game, so it contains no path of the owner's."""
LAUNCHER_README = """\
From here the host hands out the players' program, svc-launcher.pyz. It is part of a release:
svcctl content launcher FILE --config {folder}
"""


@frozen
class CreatedHost:
    """A host that ``svcctl init`` created, for the printed summary."""

    plan: Plan
    owner: str
    my_ip: str  # MY_IP in deploy.env; empty if it could not be determined

    @property
    def folder(self) -> Path:
        return self.plan.folder

    @property
    def address(self) -> str:
        return self.plan.public_host

    @property
    def fingerprint(self) -> str | None:
        """Return the gateway certificate's fingerprint; None without a gateway."""
        return self.plan.fingerprint or None


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
    name: str | None = None,
) -> CreatedHost:
    """Write a ready-to-run host into ``folder``; on failure, remove its files and raise Failed.

    After an interrupted run, the next run repeats all steps with its own options, but keeps the
    owner key. If such a repeated run fails, all files stay. ``host`` is the address or name that
    players connect to. A ``private`` host has no gateway. ``data`` is a separate folder for the
    database, the game files and everything the services write. ``shared`` permits the use of a
    database in which another host has its accounts. ``name`` is the host's name for players.
    """
    folder, data, first = whole_path(folder), whole_path(data or folder), owner_name(owner)
    name = SERVER_NAME if name is None else host_name(name)
    with stoppable(), _one_line(folder, owner), begun.locked(folder), ExitStack() as undo:
        scale = scale or Scale()
        _claim(folder, data, scale, undo)
        pair = None if private else _certificate(host)
        plan = Plan(
            folder,
            host,
            _secrets(_values(folder, "deploy").get("METAGAME_API_KEY")),
            pair.fingerprint if pair else "",
            ports or Ports(),
            demo,
            private,
            scale,
            name,
            data,
        )
        files = blueprint.files(plan)
        _clear_stale(plan, files)
        _write(folder, data, plan, files, pair)
        if not (folder / OWNER_KEY).exists():
            _put(folder / OWNER_KEY, rules.new_account_key() + "\n")
        if not plan.scale.database and not (data / DATABASE).exists():
            write_private(data / DATABASE, "")  # SQLite keeps the mode of the file it finds
        first = _register(plan, first, shared, undo)
        _put(folder / begun.LAST, files[begun.LAST])
        begun.clear(folder)
        return CreatedHost(plan, first, parse_env_file(files["deploy.env"])["MY_IP"])


def write_ownerless(at: Path, folder: Path, host: str, *, private: bool) -> str | None:
    """Write the files of a new host into ``at``, but create no owner and no database.

    The caller later moves the files to ``folder``, so the paths in the settings begin with
    ``folder``. Returns the fingerprint of the host's certificate, or None without a gateway.
    """
    with _one_line(folder, ""):
        pair = None if private else _certificate(host)
        fingerprint = pair.fingerprint if pair else None
        plan = Plan(folder, host, _secrets(), fingerprint or "", private=private)
        files = blueprint.files(plan)
        _write(at, at, plan, files, pair)
        _put(at / begun.LAST, files[begun.LAST])
    return fingerprint


def _claim(folder: Path, data: Path, scale: Scale, undo: ExitStack) -> None:
    """Write the marker of a new host; if the command then fails, remove what the command wrote.

    If an earlier command began to create the host, nothing is removed.
    """
    note = begun.read_marker(folder)
    if note is not None:
        if note.backup or note.data != str(data):
            fail(note.cure(folder))
        return
    own = _own(folder, data, scale)
    for path in own:
        if os.path.lexists(path):
            cure = "Nothing was changed. Choose another folder."
            fail(f"{path.parent} already contains {path.name}. {cure}")
    undo.callback(_discard, folder, own)
    Begun(str(data)).write(folder)
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as why:
        fail(f"{data} cannot be written: {why.strerror}")


def _own(folder: Path, data: Path, scale: Scale) -> list[Path]:
    """Return the paths of all files and folders that ``create_host`` may create in this folder."""
    ends = () if scale.database else ("", "-wal", "-shm", "-journal")
    databases = [f"{DATABASE}{end}" for end in ends]
    return [
        *(folder / name for name in (*SETTINGS, CERT_FILE, KEY_FILE, OWNER_KEY, LIVE_CONFIG)),
        folder / UNITS,
        *(data / name for name in (*databases, GAME, blueprint.LAUNCHER, MANIFEST)),
    ]


def _discard(folder: Path, own: Iterable[Path]) -> None:
    """Remove all files of a host whose creation failed."""
    try:
        for path in own:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as why:
        by_hand = f"rm -r {shlex.quote(str(path))}"
        warn(f"{path} cannot be removed: {why.strerror}. To remove {path}, run: {by_hand}")
    begun.clear(folder)


def _clear_stale(plan: Plan, files: Iterable[str]) -> None:
    """Remove files that an interrupted command wrote and that ``plan`` does not need."""
    stale = {*SETTINGS, LIVE_CONFIG, CERT_FILE, KEY_FILE} - {*files}
    for name in stale if plan.private else stale - {CERT_FILE, KEY_FILE}:
        (plan.folder / name).unlink(missing_ok=True)
    if (plan.folder / UNITS).exists():
        shutil.rmtree(plan.folder / UNITS)


@contextmanager
def _one_line(folder: Path, owner: str) -> Iterator[None]:
    try:
        yield
    except (BadCertificate, BadDatabase, BuildFailed) as why:
        fail(f"{folder}: {why}")
    except Refusal as why:
        fail(f"--owner {owner}: {why.message}")
    except OSError as why:
        fail(f"{folder} cannot be written: {why.strerror}")


def whole_path(folder: Path) -> Path:
    """Return a host's absolute folder; raises Failed if a settings file cannot hold the path.

    Such a path ends in a blank or has an unprintable character. Symbolic links are kept, because a
    link may later point elsewhere. A path with ``..`` is resolved, because a path like ``a/../b``
    stops working when ``a`` is removed.
    """
    path = folder.resolve() if ".." in folder.parts else folder.absolute()
    if not str(path).isprintable() or str(path) != str(path).strip():
        fail(
            f"the path {str(path)!a} cannot be written into a setting. The path ends with a space "
            "or contains an unprintable character. Choose another folder."
        )
    return path


def host_name(name: str) -> str:
    """Return ``name``, a host's name; raises Failed if SERVER_NAME cannot hold the name."""
    line = f"SERVER_NAME={name}\n"
    if (
        not 0 < len(name) <= 64
        or not name.isprintable()
        or parse_env_file(line) != {"SERVER_NAME": name}
    ):
        fail(
            f"--name {name!a}: give a name of 1 to 64 printable characters. The name must not "
            "begin or end with a space. The name must not be enclosed in quotation marks."
        )
    return name


def owner_name(owner: str) -> str:
    """Return the owner's name; raises Failed if it is not a valid user name."""
    try:
        return rules.username(owner)
    except Refusal as why:
        fail(f"--owner {owner}: {why.message}")


def _certificate(host: str) -> Pair:
    return make_pair(list(dict.fromkeys([host, "127.0.0.1", "localhost"])))


def _secrets(game_server: str | None = None) -> blueprint.Secrets:
    return blueprint.Secrets(
        gateway=Secret(hex_token(64)),
        allowlist=Secret(hex_token(64)),
        game_server=Secret(game_server or hex_token(64)),
        signing=new_signing_keys(),
    )


def _write(at: Path, data: Path, plan: Plan, files: Mapping[str, str], pair: Pair | None) -> None:
    """Write a host's files except the owner's files and ``metagame.env``."""
    if pair is not None:
        begun.put(at / CERT_FILE, pair.certificate, 0o644)
        begun.put(at / KEY_FILE, pair.key)
    for name, text in files.items():
        if name != begun.LAST:
            _put(at / name, text)
    game = data / GAME
    game.mkdir(exist_ok=True)
    begun.put(game / OWNERS_NOTE, README.encode(), 0o644)
    if plan.demo:
        begun.put(game / "data.pak", secrets.token_bytes(GAME_FILE_BYTES), 0o644)
        begun.put(game / "game.exe", b"The game's program would be here.\n", 0o644)
    launcher = data / blueprint.LAUNCHER
    launcher.mkdir(exist_ok=True)
    write_launcher_note(launcher, plan.folder)
    build_manifest(game, "1.4.4", data / MANIFEST)
    if plan.scale.live_password:
        text = f"requirepass {plan.scale.live_password}\nmaxmemory-policy noeviction\n"
        _put(at / LIVE_CONFIG, text)
    write_units(at, plan.folder, plan.data, plan.components)


def _put(path: Path, text: str) -> None:
    begun.put(path, text.encode())


def write_launcher_note(launcher: Path, folder: Path) -> None:
    """Write a note for the host's owner into the folder ``launcher``."""
    text = LAUNCHER_README.format(folder=shlex.quote(str(folder)))
    (launcher / OWNERS_NOTE).write_text(text, encoding="utf-8")


def write_units(at: Path, folder: Path, data: Path, components: Iterable[str]) -> None:
    """Write systemd units below ``at``, for the host whose settings are in ``folder``."""
    run_by, python = at / UNITS, Path(sys.executable)
    run_by.mkdir(exist_ok=True)
    place = units.UnitPaths(folder, python.with_name("twistd"), python.resolve(), data)
    for name, text in units.files(place, components).items():
        (run_by / name).write_text(text, encoding="utf-8")


def _register(plan: Plan, name: str, shared: bool, undo: ExitStack) -> str:
    """Create the database and the owner's account; return the owner's name.

    If the database already has an account with the owner's key, that account is kept.
    """
    key = (plan.folder / OWNER_KEY).read_text(encoding="utf-8").strip()
    url = database_url(plan.scale.database or sqlite_url(plan.data / DATABASE))
    engine = make_engine(url)
    with suppress(SQLAlchemyError):  # the transaction below reports the same error
        refuse_unsuitable(engine)
    with transaction(engine) as tx:
        if not shared and is_anothers(tx, key):  # before any change
            fail(
                f"the database {url.render_as_string()} has accounts of another host, so "
                "nothing was changed. Set SVC_DATABASE_URL or --database to another database; or "
                "share this one with --share-database; or restore a lost folder with svcctl backup "
                f"restore FILE --into {shlex.quote(str(plan.folder))}"
            )
    engine = make_engine(url)
    migrations.upgrade(engine)
    with transaction(engine) as tx:
        accounts = SqlAccounts(tx)
        add_game_server_key(tx, plan.secrets.game_server.reveal())
        if (owner := accounts.by_key(key)) is not None:  # created by an earlier command
            if owner.username != name:
                warn(f"--owner {name} was ignored: the owner is already {owner.username}")
            return owner.username
        rules.check_free(accounts, name)
        accounts.add(Account(new_account_id(), name, is_admin=True), key, time.time())
        undo.pop_all()  # from here on, the transaction may be committed
    return name


def _values(folder: Path, component: str) -> dict[str, str]:
    try:
        return parse_env_file((folder / f"{component}.env").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}


def write_private(path: Path, text: str) -> None:
    """Create a file with mode 0600; raises OSError if it exists."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
