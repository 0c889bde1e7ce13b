"""``svcctl backup restore`` and ``db restore`` while a stack or a metagame runs the host.

Real processes are needed because a running host is detected by the locks and ports that its
processes hold.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import orjson
import pytest

from svcserver.metagame.accounts.store import SqlAccounts
from tests.ctl.command import database_of, svcctl
from tests.ctl.hosts import PATIENCE_S, change, demo_host, read_output, run, stack
from tests.ctl.killed import KILLED, child, killed_at_step
from tests.support import prestarted
from tests.support.postgres import fresh_database
from tests.support.prestarted import Prestarted
from tests.support.processes import eventually

pytestmark = pytest.mark.live


def backup(folder: Path) -> str:
    """Make a backup, then create an account that the backup lacks."""
    done = run("backup", "now", "--json", "--config", folder)
    assert done.returncode == 0, done.stderr
    assert run("account", "create", "Late_1", "--config", folder).returncode == 0
    return str(orjson.loads(done.stdout)["file"])


def names(folder: Path) -> set[str]:
    with database_of(folder) as tx:
        return {account.username for account in SqlAccounts(tx).everyone()}


@contextmanager
def by_hand(folder: Path) -> Iterator[Prestarted]:
    """Start a metagame without a stack and wait for its ready line."""
    words = ["--nodaemon", "--pidfile=", "svc-metagame", "--env-file", str(folder / "metagame.env")]
    with (folder / "out.log").open("wb") as out:
        process = prestarted.start(words, os.environ, folder, out.fileno())
    try:
        eventually(lambda: " ready" in read_output(folder), PATIENCE_S)
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def restore(folder: Path, file: str, *words: str) -> subprocess.CompletedProcess[str]:
    return run("backup", "restore", file, "--config", folder, *words)


def refused(folder: Path, file: str) -> str:
    """Return the error line of a rejected restore; assert that the database is unchanged."""
    done = restore(folder, file)
    assert (done.returncode, done.stdout) == (1, ""), done.stdout
    [line] = done.stderr.splitlines()
    assert line.startswith("svcctl: the host is running: "), line
    assert "Late_1" in names(folder)
    assert not list(folder.glob("svc.db.before-restore-*"))
    return line


# slow: a whole host is started and stopped
def test_a_running_stack_is_refused_or_stopped(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    file = backup(folder)
    with stack(folder) as process:
        eventually(lambda: "stack ready" in read_output(folder), PATIENCE_S)
        assert f"svc-stack (process {process.pid})" in refused(folder, file)
        bad = folder / "bad.tar.gz"
        bad.write_bytes(Path(file).read_bytes()[:-100])
        assert restore(folder, str(bad), "--stop").returncode == 1
        assert process.poll() is None  # a restore that cannot succeed does not stop the host
        done = restore(folder, file, "--stop")
        assert done.returncode == 0, done.stderr
        assert f"stopped svc-stack (process {process.pid})" in done.stdout
        assert process.wait(PATIENCE_S) == -signal.SIGTERM
    assert names(folder) == {"owner"}
    with stack(folder):
        eventually(lambda: "stack ready" in read_output(folder), PATIENCE_S)


def test_a_metagame_by_hand_is_refused_or_stopped(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    file = backup(folder)
    with by_hand(folder) as process:
        assert f"svc-metagame (process {process.pid})" in refused(folder, file)
        done = restore(folder, file, "--stop")
        assert done.returncode == 0, done.stderr
        assert f"stopped svc-metagame (process {process.pid})" in done.stdout
        assert process.wait(PATIENCE_S) == -signal.SIGTERM
    assert names(folder) == {"owner"}


def test_db_restore_refuses_or_stops_a_running_metagame(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    copy = folder / "copy.db"
    assert run("db", "backup", copy, "--config", folder).returncode == 0
    assert run("account", "create", "Late_1", "--config", folder).returncode == 0
    words = ("db", "restore", copy, "--config", folder)
    with by_hand(folder) as process:
        refusal = run(*words)
        assert refusal.returncode == 1
        assert f"svc-metagame (process {process.pid})" in refusal.stderr
        assert "Late_1" in names(folder)
        done = run(*words, "--stop")
        assert done.returncode == 0, done.stderr
        assert process.wait(PATIENCE_S) == -signal.SIGTERM
    assert names(folder) == {"owner"}


def test_another_program_in_the_database_is_not_ended(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    file = backup(folder)
    held = (
        "import sqlite3, sys, time; one = sqlite3.connect(sys.argv[1]);"
        "one.execute('SELECT count(*) FROM accounts').fetchone(); print(flush=True); time.sleep(99)"
    )
    words = [sys.executable, "-c", held, str(folder / "svc.db")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        program.stdout.readline()
        for options, why in (
            ((), "svcctl: the host may be running: "),
            (("--stop",), "is not a service of this host"),
        ):
            done = restore(folder, file, *options)
            assert done.returncode == 1
            assert why in done.stderr
            assert f"(process {program.pid})" in done.stderr
        assert program.poll() is None
        program.kill()
    assert restore(folder, file).returncode == 0


def test_a_metagame_on_postgresql_is_refused(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    change(folder, "metagame", "DATABASE_URL", fresh_database())
    assert run("db", "upgrade", "--config", folder).returncode == 0
    file = backup(folder)
    with by_hand(folder) as process:
        program = f"svc-metagame (process {process.pid} on {socket.gethostname()})"
        assert program in refused(folder, file)
        stopped = restore(folder, file, "--stop")
        assert stopped.returncode == 1
        assert program in stopped.stderr
        assert "not a service of this host" not in stopped.stderr
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
    done = restore(folder, file)
    assert done.returncode == 0, done.stderr
    assert names(folder) == set()


# slow: a restore is killed at many steps
def test_a_killed_restore_leaves_nothing_once_another_has_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, scratch = demo_host(tmp_path / "host"), tmp_path / "scratch"
    scratch.mkdir()
    file = backup(folder)
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    words = ("backup", "restore", file, "--config", folder)
    for number in range(1, 40, 5):
        ended = child(partial(killed_at_step, number, scratch), *words)
        assert svcctl(*words).status == 0
        assert not list(scratch.iterdir()), number
        for stored in folder.glob("svc.db.before-restore-*"):
            stored.unlink()  # another may be made in the same second
        if ended != KILLED:
            break
    assert number > 5
    assert os.environ["TMPDIR"] == str(scratch)
