"""File modes that our programs create under an open and a strict umask.

Real processes are needed because each program sets its umask as it starts.
"""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ctl import hosts
from tests.ctl.hosts import demo_host, read_output, stack
from tests.support.processes import PATIENCE_S, eventually

pytestmark = pytest.mark.live

MASKS = (0, 0o077)  # the usual 0o022 only clears bits that 0 leaves
PROGRAMS = Path(sys.executable).parent
PRIVATE = ("*.env", "*.key", "*.db*", "*.conf", "*.log", "*.json", "*.tar*.gz")
OPEN = ("manifest*.json", "certificate*", "*.crt")  # what everybody may read


@contextmanager
def under(mask: int) -> Iterator[None]:
    """Set the umask that child processes inherit."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def run(*words: object) -> str:
    """Run ``svcctl`` and return its output."""
    done = hosts.run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def check(folder: Path, *private: str, made_by_test: tuple[str, ...] = ()) -> None:
    """Assert that no file below the folder is readable or writable by more users than it should be.

    ``private`` names the folders that only their owner may enter.
    """
    faults = []
    for path in (folder, *sorted(folder.rglob("*"))):
        if path.name in made_by_test or path.is_symlink():
            continue
        result, name = mode(path), path.relative_to(folder).as_posix()
        if path.is_dir():
            wrong = result & 0o022 or (name in private and result != 0o700)
        else:
            secret = any(map(path.match, PRIVATE)) and not any(map(path.match, OPEN))
            wrong = result & 0o022 or (secret and result != 0o600)
        if wrong:
            faults.append(f"{name} {result:o}")
    assert not faults, faults


@pytest.mark.parametrize("mask", MASKS, ids=oct)
def test_files_of_host_backup_and_restore_are_private(tmp_path: Path, mask: int) -> None:
    host, data, again = tmp_path / "host", tmp_path / "data", tmp_path / "again"
    with under(mask):
        run("init", host, "--public-host", "203.0.113.7", "--data", data)
        run("backup", "now", "--config", host)
        [made] = json.loads(run("backup", "list", "--config", host, "--json"))["backups"]
        backup = Path(made["file"])
        run("backup", "restore", backup, "--into", again)
        run("bundle", host / "all.log", "--config", host)
    check(host, ".")
    check(data, ".", backup.parent.relative_to(data).as_posix())
    check(again, ".")
    assert mode(backup) == 0o600


@pytest.mark.parametrize("mask", MASKS, ids=oct)
def test_files_of_a_running_host_are_private_under_any_umask(tmp_path: Path, mask: int) -> None:
    host = demo_host(tmp_path / "host")
    (host / "out.log").touch(0o600)
    before = set(host.rglob("*"))
    with under(mask), stack(host):
        eventually(lambda: "stack ready" in read_output(host), PATIENCE_S)
        eventually((host / "stack.json").is_file)
        made = set(host.rglob("*")) - before
        assert mode(host / "stack.json") == 0o600
        check(host, ".", "gameserver-logs")
    assert made
    check(host, ".", "gameserver-logs")


@pytest.mark.parametrize("mask", MASKS, ids=oct)
def test_files_of_the_launcher_are_private_under_any_umask(tmp_path: Path, mask: int) -> None:
    home = tmp_path / "home"
    home.mkdir(0o700)
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    line = [str(PROGRAMS / "svc-launcher"), "--print-link", "--no-links"]
    with under(mask), subprocess.Popen(line, env=environ, stdout=subprocess.PIPE) as launcher:
        try:
            assert launcher.stdout is not None
            assert launcher.stdout.readline()
            check(home, ".")
            assert any(path.is_file() for path in home.rglob("*"))
        finally:
            launcher.send_signal(signal.SIGTERM)
            launcher.wait(PATIENCE_S)
    check(home, ".")
