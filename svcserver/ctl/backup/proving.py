"""The restore test: restores a backup into a temporary host and simulates players there."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field, frozen
from sqlalchemy.engine import URL

from svcserver.ctl.backup.archive import Contents, DamagedBackup
from svcserver.ctl.backup.restoring import DUMP, opened, restored, same
from svcserver.ctl.backup.scratch import database, scratch
from svcserver.ctl.backup.sealing import BackupLock, CannotSeal
from svcserver.ctl.backup.throwaway import ThrowAway
from svcserver.ctl.database import file_of, url_of
from svcserver.ctl.database_commands import migrate
from svcserver.ctl.host import OWNER_KEY, find
from svcserver.ctl.host_creation import create_host
from svcserver.ctl.output import Failed
from svcserver.ctl.postgres import needs
from svcserver.ctl.postgres_restore import restore_into
from svcserver.edge.certificate import CERT_FILE, KEY_FILE
from svcserver.kernel import json
from svcserver.kernel.alert_settings import PATTERN
from svcserver.kernel.envfile import change
from svcserver.kernel.processes import sizes
from svcserver.kernel.secrets import hex_token
from svcserver.kernel.settings import parse_env_file
from svcserver.stack.components import environment

LOCALHOST = "127.0.0.1"
# settings with an address, access rights or a file
PLACE = re.compile(r"PORT|HOST|BIND|URL|LOG|ALLOW|SECRET|CERT|GATEWAY_KEY|CONNECTIONS")
A_PATH = re.compile(r"_(DIR|FILE|PATH)\Z")
# settings of the game itself, which come from the backup
THE_GAMES = re.compile(
    r"AUTH_SIGNING_.*|DATABASE_URL|SERVER_NAME|SAVE_HISTORY_KEEP|CITY_MAP|STORE|GUILDS|"
    r"CHAT_PRESENCE|NODE_ENV"
)


@define(eq=False, kw_only=True)
class Restored(ThrowAway):
    """A temporary host that is restored from an unpacked backup."""

    contents: Contents
    parts: Path = field()

    def make(self) -> None:
        """Restore the backup, and isolate the restored host from the running host."""
        restored(self.contents, self.parts, self.folder, self.folder)
        plain = self.folder.with_name("plain")
        create_host(plain, LOCALHOST, "owner", ports=self.ports, demo=True)
        set_apart(self.folder, plain)


def set_apart(folder: Path, plain: Path) -> None:
    """Change the settings of the host in ``folder``: copy the ports and addresses from ``plain``.

    ``plain`` is the folder of a temporary host.
    """
    for path in [*folder.glob(PATTERN), folder / "stack.env"]:
        path.unlink(missing_ok=True)  # a restore test sends no alerts and has one worker
    ours, lent = _read(folder / "metagame.env"), _read(plain / "metagame.env")
    game = {name: text for name, text in lent.items() if not THE_GAMES.fullmatch(name)}
    metagame = {"CITY_MAP": lent["CITY_MAP"], **_rules(ours, folder), **game}
    metagame["DATABASE_URL"] = ours.get("DATABASE_URL", "")
    _write(folder / "metagame.env", metagame)
    _certificate(folder, plain)
    gateway = _rules(_read(folder / "gateway.env"), folder) | _read(plain / "gateway.env")
    gateway |= {"GATEWAY_CERT": str(folder / CERT_FILE), "GATEWAY_KEY": str(folder / KEY_FILE)}
    _write(folder / "gateway.env", gateway)
    deploy = {**_read(plain / "deploy.env"), "CITY_MAP": metagame["CITY_MAP"]}
    _write(folder / "deploy.env", deploy)
    for name in ("content.env", "allowlist.env", "relay.env"):
        _write(folder / name, _read(plain / name))


def _rules(values: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the settings that can be used unchanged on the temporary host.

    Settings that contain a port, an address, or the path of a file outside the backup are left out.
    """
    return {
        name: text
        for name, text in values.items()
        if not PLACE.search(name) and (A_PATH.search(name) is None or _is_there(text, folder))
    }


def _is_there(text: str, folder: Path) -> bool:
    path = (folder / text).resolve()
    return folder.resolve() in path.parents and path.exists()


def _certificate(folder: Path, plain: Path) -> None:
    """Use the certificate in the backup; if there is none, use that of the temporary host."""
    named = _read(folder / "gateway.env")
    pair = [
        folder / named.get("GATEWAY_CERT", CERT_FILE),
        folder / named.get("GATEWAY_KEY", KEY_FILE),
    ]
    if not all(_is_there(str(path), folder) for path in pair):
        pair = [plain / CERT_FILE, plain / KEY_FILE]
    for source, name in zip(pair, (CERT_FILE, KEY_FILE), strict=True):
        if source != folder / name:
            shutil.copy(source, folder / name)


def _read(path: Path) -> dict[str, str]:
    return parse_env_file(path.read_text("utf-8-sig")) if path.is_file() else {}


def _write(path: Path, values: Mapping[str, str]) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    text = "".join(f"{name}={value}\n" for name, value in values.items() if value)
    path.write_text(text, encoding="utf-8")


EVENING_S = 600.0
PLAYERS = 2
NEEDED_MB = 700  # the memory that a second host needs


@frozen
class Proof:
    """The result of a restore test; ``fault`` is None if the backup is good."""

    fault: str | None
    contents: Contents | None = None


def prove(source: Path, lock: BackupLock, live: URL) -> Proof:
    """Restore a backup into a scratch folder, and run a simulated session on the restored host.

    ``live`` is the database of the running host. A PostgreSQL dump is restored into a new database
    on the same server.
    """
    try:
        if live.get_backend_name() == "postgresql":
            needs("pg_restore")
        with scratch(live) as folder:
            contents = opened(source, lock, folder / "parts")
            _enough_memory()
            with _host(contents, folder, live) as host:
                fault = _evening(host)
    except DamagedBackup as why:
        return Proof(str(why))
    except CannotSeal as why:
        return Proof(str(why))
    except Failed as why:
        return Proof(why.message)
    except OSError as why:
        return Proof(f"the backup cannot be tested: {why.strerror or why}")
    return Proof(fault, contents)


def _enough_memory() -> None:
    if sizes().get("MemAvailable", NEEDED_MB << 10) >> 10 < NEEDED_MB:
        raise DamagedBackup(
            f"the backup was not tested: the restore test needs {NEEDED_MB} MB of memory"
        )


@contextmanager
def _host(contents: Contents, drill: Path, live: URL) -> Iterator[ThrowAway]:
    """Start the restored host, isolated from the running host."""
    with (
        Restored(drill / "host", contents=contents, parts=drill / "parts") as host,
        _database(contents, host.folder, live) as url,
    ):
        change(host.folder / "metagame.env", {"DATABASE_URL": _render_url(url)})
        key = _printed(host, "gameserver-key", "add")
        change(host.folder / "deploy.env", {"METAGAME_API_KEY": key})
        owner = _printed(host, "account", "create", f"Drill_{hex_token(4)}", "--admin")
        (host.folder / OWNER_KEY).write_text(owner, encoding="utf-8")
        (host.folder / "stack.env").write_text("BACKUP_AT=off\n", encoding="utf-8")
        host.start()
        try:
            yield host
        finally:
            host.stop()


def _render_url(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def _printed(host: ThrowAway, *words: str) -> str:
    """Return the key that an ``svcctl`` command prints; raises DamagedBackup if there is no key."""
    output = host.svcctl(*words, "--json")[1]
    try:
        return str(json.parse(output.encode())["key"])
    except (ValueError, KeyError, TypeError):
        raise DamagedBackup(
            f"svcctl {words[0]} failed on the restored host: {output.strip()[:200]}"
        ) from None


@contextmanager
def _database(contents: Contents, folder: Path, live: URL) -> Iterator[URL]:
    """Yield the URL of the restored database.

    A PostgreSQL dump is restored into a new database on the server of the database ``live``.
    """
    if contents.kind == "sqlite":
        url = url_of(find(str(folder), None))
        file = file_of(url)
        if file is None or folder not in (folder / file).parents:
            raise DamagedBackup("the backup's database is outside the scratch folder")
        yield URL.create("sqlite", database=str(folder / file))
        return
    if live.get_backend_name() != "postgresql":
        raise DamagedBackup("the backup is a PostgreSQL dump, but DATABASE_URL is not PostgreSQL")
    with database(folder.parent, live) as url:
        restore_into(url, folder / DUMP)
        same(contents, url)
        migrate(url)
        yield url


def _evening(host: ThrowAway) -> str | None:
    """Run a simulated session on the host; return a description of the failure, or None."""
    words = ["play", "--config", str(host.folder), "--players", str(PLAYERS), "--json"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "svcserver.ctl.main", *words],
            capture_output=True,
            text=True,
            timeout=EVENING_S,
            env=environment(os.environ),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the simulated session on the restored host did not end within {EVENING_S:.0f} s"
    if done.returncode == 0:
        return None
    errors = done.stderr.strip().splitlines()
    reason = errors[-1] if errors else "no reason was given"
    return f"the simulated session on the restored host failed: {reason}"
