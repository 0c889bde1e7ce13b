"""The restore drill: a backup is restored into a throw-away host, and played on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen
from sqlalchemy.engine import URL

from svcserver.ctl.backup.apart import Restored
from svcserver.ctl.backup.archive import Contents, DamagedBackup
from svcserver.ctl.backup.opening import opened, same
from svcserver.ctl.backup.restoring import DUMP
from svcserver.ctl.backup.scratch import database, scratch
from svcserver.ctl.backup.sealing import CannotSeal, Lock
from svcserver.ctl.backup.throwaway import ThrowAway
from svcserver.ctl.database import file_of, url_of
from svcserver.ctl.database_commands import migrate
from svcserver.ctl.envfile import change
from svcserver.ctl.host import OWNER_KEY, find
from svcserver.ctl.output import Failed
from svcserver.ctl.postgres import needs
from svcserver.ctl.postgres_restore import restore_into
from svcserver.kernel import json
from svcserver.kernel.secrets import hex_token
from svcserver.stack.components import environment

EVENING_S = 600.0
PLAYERS = 2
NEEDED_MB = 700  # memory of a second host


@frozen
class Proof:
    """The result of a drill; ``fault`` is None for a good backup."""

    fault: str | None
    contents: Contents | None = None


def prove(source: Path, lock: Lock, live: URL) -> Proof:
    """Restore the stored file into scratch, and run a session on it.

    ``live`` is the host's own database: a dump of PostgreSQL goes into a new one on its server.
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
        return Proof(f"it cannot be tried: {why.strerror or why}")
    return Proof(fault, contents)


def _enough_memory() -> None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("MemAvailable:") and int(line.split()[1]) >> 10 < NEEDED_MB:
            raise DamagedBackup(f"it was not tried: a drill wants {NEEDED_MB} MB of memory")


@contextmanager
def _host(contents: Contents, drill: Path, live: URL) -> Iterator[ThrowAway]:
    """Start the restored host, isolated from the running one."""
    with (
        Restored(drill / "host", contents=contents, parts=drill / "parts") as host,
        _database(contents, host.folder, live) as url,
    ):
        change(host.folder / "metagame.env", {"DATABASE_URL": _said(url)})
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


def _said(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def _printed(host: ThrowAway, *words: str) -> str:
    """Return the key that a command prints, which the restored database knows."""
    output = host.svcctl(*words, "--json")[1]
    try:
        return str(json.parse(output.encode())["key"])
    except (ValueError, KeyError, TypeError):
        raise DamagedBackup(f"svcctl {words[0]} failed on it: {output.strip()[:200]}") from None


@contextmanager
def _database(contents: Contents, folder: Path, live: URL) -> Iterator[URL]:
    """Yield the restored database; for PostgreSQL a new one on the host's server."""
    if contents.kind == "sqlite":
        url = url_of(find(str(folder), None))
        file = file_of(url)
        if file is None or folder not in (folder / file).parents:
            raise DamagedBackup("its database would not lie in the scratch folder")
        yield URL.create("sqlite", database=str(folder / file))
        return
    if live.get_backend_name() != "postgresql":
        raise DamagedBackup("it is a dump of PostgreSQL, and DATABASE_URL names none to try it on")
    with database(folder.parent, live) as url:
        restore_into(url, folder / DUMP)
        same(contents, url)
        migrate(url)
        yield url


def _evening(host: ThrowAway) -> str | None:
    """Run a simulated session on the host; return what went wrong, or None."""
    words = ["play", "--config", str(host.folder), "--players", str(PLAYERS)]
    relay = ["--relay-port", str(host.ports.relay), "--json"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "svcserver.ctl.main", *words, *relay],
            capture_output=True,
            text=True,
            timeout=EVENING_S,
            env=environment(os.environ),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the evening on it was not over after {EVENING_S:.0f} s"
    if done.returncode == 0:
        return None
    errors = done.stderr.strip().splitlines()
    return f"no evening could be played on it: {errors[-1] if errors else 'no reason was given'}"
