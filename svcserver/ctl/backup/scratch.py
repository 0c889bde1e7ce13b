"""Temporary folders and databases for restores and restore tests.

Each restore test locks its folder until the test's process ends. An unlocked folder belonged to a
test that was killed; the next test removes this folder.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import URL

from svcserver.ctl.backup.archive import DamagedBackup
from svcserver.db.engine import SQLAlchemyError, describe, make_engine
from svcserver.kernel import backups
from svcserver.kernel.secrets import hex_token

PREFIX = "svc-drill-"
DATABASE = "database"  # the file with the name of the test's PostgreSQL database and its server
_NAME = re.compile(r"svc_drill_[0-9a-f]{8}")


@contextmanager
def scratch(live: URL) -> Iterator[Path]:
    """Yield a scratch folder, after removing the leftovers of killed restore tests.

    ``live`` is the host's database. If it is on a PostgreSQL server, the leftovers include
    databases on this server.
    """
    remove_left_over(live)
    made = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
    with backups.running(made):
        folder = made.rename(
            made.with_name(made.name[1:])
        )  # the folder gets its real name when it is locked
        try:
            yield folder
        finally:
            # Once the lock's file is deleted, another test may take this folder for a leftover and
            # remove it at the same time. The next test removes what stays.
            shutil.rmtree(folder, ignore_errors=True)


def remove_left_over(live: URL) -> None:
    """Remove the folders and databases that killed restore tests left behind.

    Folders of other users and of running tests are not touched.
    """
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # if this fails, the next test retries
            if _is_ours(folder):
                with backups.running(folder) as left:
                    if left and _dropped(folder, live):
                        shutil.rmtree(folder)


def _is_ours(folder: Path) -> bool:
    about = folder.lstat()  # of the link itself, not its target
    return folder.is_dir() and not folder.is_symlink() and about.st_uid == os.geteuid()


@contextmanager
def database(folder: Path, live: URL) -> Iterator[URL]:
    """Yield a new empty database on the server of ``live``, and drop it afterwards.

    The database's name is stored in ``folder``. If this process is killed, the next test can then
    drop the database.
    """
    name = f"svc_drill_{hex_token(8)}"
    (folder / DATABASE).write_text(f"{name} {_server(live)}", encoding="utf-8")
    on_server(live, f'CREATE DATABASE "{name}"')
    try:
        yield live.set(database=name)
    finally:
        on_server(live, f'DROP DATABASE "{name}"')


def _dropped(folder: Path, live: URL) -> bool:
    """Drop the database of a killed test; return whether the database is gone.

    If the database still exists, the caller keeps the folder, so that the next test tries again.
    """
    if not (folder / DATABASE).exists():
        return True
    name, _, server = (folder / DATABASE).read_text(encoding="utf-8").partition(" ")
    if not _NAME.fullmatch(name):
        return not name  # killed before the name was written, so there is no database
    if live.get_backend_name() != "postgresql" or server != _server(live):
        return False
    try:
        on_server(live, f'DROP DATABASE IF EXISTS "{name}"')
    except DamagedBackup:  # the database is still open, or the server is down
        return False
    return True


def _server(url: URL) -> str:
    return f"{url.host or ''}:{url.port or ''}{url.query.get('host', '')}"


def on_server(url: URL, statement: str) -> None:
    """Run a statement that PostgreSQL does not allow in a transaction.

    Raises DamagedBackup if the statement fails.
    """
    engine = make_engine(url)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
            tx.execute(text(statement))
    except SQLAlchemyError as why:
        reason = f"{describe(why)}; allow the role to make databases (ALTER ROLE ... CREATEDB)"
        raise DamagedBackup(
            f"the backup was not tested, because the test needs a new database: {reason}"
        ) from None
    finally:
        engine.dispose()
