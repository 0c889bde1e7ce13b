"""PostgreSQL behind pgbouncer, and databases of another encoding.

Real processes are needed because the tests run pgbouncer in front of a PostgreSQL server.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import make_url

from svcserver.db.suitable import SHARED
from tests import tools
from tests.ctl.hosts import PATIENCE_S, change, row_of, run
from tests.support import requirements
from tests.support.nobody import as_nobody
from tests.support.postgres import fresh_database
from tests.support.processes import eventually

pytestmark = pytest.mark.live
MODES = [
    ("transaction", ()),
    ("transaction", ("server_round_robin = 1",)),
    ("transaction", ("default_pool_size = 1",)),
    ("statement", ()),
]


@contextmanager
def pooled(url: str, mode: str, *more: str) -> Iterator[str]:
    """Run pgbouncer; yield the URL of the same database through it, in this pooling mode."""
    pgbouncer = tools.find("pgbouncer")
    if pgbouncer is None:
        raise requirements.skip("pgbouncer", tools.MISSING)
    server, port = make_url(url), row_of(1, socket.SOCK_STREAM)
    with TemporaryDirectory(prefix="svc-pgbouncer-") as name:
        folder = Path(name)
        (folder / "users").write_text(f'"{server.username}" ""\n')
        lines = (
            "[databases]",
            f"* = host={server.query['host']}",
            "[pgbouncer]",
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =",
            f"auth_type = trust\nauth_file = {folder}/users",
            f"pool_mode = {mode}",
            *more,
        )
        (folder / "ini").write_text("\n".join(lines) + "\n")
        prefix = as_nobody() if os.geteuid() == 0 else []  # pgbouncer refuses root
        folder.chmod(0o755)
        with (folder / "log").open("wb") as log:
            command = [*prefix, pgbouncer, "-q", str(folder / "ini")]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        through = server.set(host="127.0.0.1", port=port, query={})
        try:
            eventually(lambda: _listens(port), 30)
            yield through.render_as_string()
        finally:
            process.terminate()
            process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


# slow: four processes after one another
@pytest.mark.parametrize(("mode", "more"), MODES)
def test_pgbouncer_in_another_mode_is_refused(
    tmp_path: Path, mode: str, more: tuple[str, ...]
) -> None:
    direct = fresh_database()
    folder = tmp_path / "host"
    with pooled(direct, mode, *more) as url:
        made = run("init", folder, "--private-host", "127.0.0.1", "--database", url)
        assert (made.returncode, made.stderr.count("\n")) == (1, 1), made.stderr
        assert SHARED in made.stderr
        assert not (folder / "metagame.env").exists()
        made = run("init", folder, "--private-host", "127.0.0.1", "--database", direct)
        assert made.returncode == 0, made.stderr
        change(folder, "metagame", "DATABASE_URL", url)
        twistd = [str(Path(sys.executable).with_name("twistd")), "--nodaemon", "--pidfile="]
        started = subprocess.run(
            [*twistd, "svc-metagame", "--env-file", str(folder / "metagame.env")],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert started.returncode != 0
        assert started.stderr.strip().splitlines()[-1] == f"svc-metagame: DATABASE_URL: {SHARED}"
        examined = run("doctor", "--config", folder).stdout
        what, _, cure = SHARED.partition("; ")
        assert f"wrong  database: {what}; {cure}" in examined


def test_pgbouncer_in_session_mode_is_used(tmp_path: Path) -> None:
    folder = tmp_path / "host"
    with pooled(fresh_database(), "session") as url:
        made = run("init", folder, "--private-host", "127.0.0.1", "--database", url)
        assert made.returncode == 0, made.stderr
        assert "database" not in run("doctor", "--config", folder).stdout.replace("metagame", "")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_another_encoding_is_refused_by_init_and_start(tmp_path: Path, encoding: str) -> None:
    folder = tmp_path / "host"
    url = fresh_database(f"ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    made = run("init", folder, "--private-host", "127.0.0.1", "--database", url)
    assert (made.returncode, made.stderr.count("\n")) == (1, 1), made.stderr
    assert f"its encoding is {encoding}" in made.stderr
    upgraded = run("db", "upgrade", "--env-file", _env(tmp_path, url))
    assert upgraded.returncode == 1
    assert f"its encoding is {encoding}" in upgraded.stderr


def _env(folder: Path, url: str) -> Path:
    file = folder / "metagame.env"
    file.write_text(f"DATABASE_URL={url}\n")
    return file
