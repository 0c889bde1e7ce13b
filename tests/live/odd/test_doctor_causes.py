"""Faults of files and disks: ``svcctl doctor`` and other commands must name the true cause.

No file is damaged, so no command may suggest restoring a backup. Real processes are needed because
the tests need another user and separate disks.
"""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from svcserver.ctl.host_creation import create_host
from tests.live.odd.other_user import UID, bin_folder, give_away, place, run
from tests.support.requirements import skip

__all__ = ["bin_folder", "place"]
pytestmark = pytest.mark.live
DESTRUCTIVE = ("restore", "damaged", "db upgrade", "--force")


def _host(folder: Path) -> Path:
    create_host(folder, "127.0.0.1", "owner", private=True)
    return folder


def _says(svcctl: Path, host: Path, uid: int, *words: str, reads: bool = False) -> None:
    """Assert that several commands name this cause and suggest nothing destructive.

    If ``reads`` is true, commands that only read the database still work, so they are left out.
    """
    reading = [] if reads else [["db", "check"], ["backup", "now"]]
    for command in (["doctor"], ["account", "create", "Ann"], *reading):
        done = run([svcctl, *command, "--config", host], host.parent, uid=uid)
        output = done.stdout + done.stderr
        wrong = [line for line in output.splitlines() if line.startswith(("wrong", "svcctl:"))]
        assert done.returncode == 1, (command, output)
        assert "Traceback" not in output, output
        assert any(all(word in line for word in words) for line in wrong), (command, output)
        assert not [line for line in wrong if any(word in line for word in DESTRUCTIVE)], output


@contextmanager
def _disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """Mount a small separate disk; skip the test if this machine does not allow mounts."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=755", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, timeout=30, check=False).returncode:
        raise skip("mount", "nobody may mount a disk here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], timeout=30, check=True)


def test_a_database_of_another_user_is_not_damaged(place: Path, bin_folder: Path) -> None:
    host = _host(place / "host")
    give_away(host)
    os.chown(host / "svc.db", 0, 0)
    _says(bin_folder / "svcctl", host, UID, f"{UID} may not read and write {host / 'svc.db'}")


def test_a_log_of_another_user_is_not_damage(place: Path, bin_folder: Path) -> None:
    host = _host(place / "host")
    write = "import os,sqlite3,sys; c = sqlite3.connect(sys.argv[1]);"
    write += "c.execute('PRAGMA journal_mode=WAL'); c.execute('CREATE TABLE mine(a)');"
    write += "c.commit(); os._exit(0)"  # the process ends as by kill -9, so SQLite's log remains
    subprocess.run([sys.executable, "-c", write, host / "svc.db"], check=True, timeout=60)
    give_away(host)
    for end in ("-wal", "-shm"):
        os.chown(host / f"svc.db{end}", 0, 0)
        (host / f"svc.db{end}").chmod(0o444)
    _says(
        bin_folder / "svcctl",
        host,
        UID,
        "may not read and write",
        "svc.db-",
        "of root",
        "chown",
        reads=True,
    )


def test_a_folder_of_another_user_is_not_damage(place: Path, bin_folder: Path) -> None:
    host = _host(place / "host")
    data = place / "data"
    data.mkdir()
    (host / "svc.db").rename(data / "svc.db")
    text = (host / "metagame.env").read_text().splitlines()
    lines = [entry for entry in text if not entry.startswith("DATABASE_URL=")]
    (host / "metagame.env").write_text("\n".join([*lines, f"DATABASE_URL=sqlite:///{data}/svc.db"]))
    give_away(host)
    os.chown(data / "svc.db", UID, UID)
    _says(bin_folder / "svcctl", host, UID, f"{UID} may not read and write {data} of root")
    data.chmod(0o700)
    _says(bin_folder / "svcctl", host, UID, f"{UID} may not read and write {data} of root")


def test_a_full_disk_is_not_damage(place: Path, bin_folder: Path) -> None:
    with _disk(place / "disk", 16_384) as disk:
        host = _host(disk / "host")
        give_away(host)
        with (disk / "rest").open("wb", buffering=0) as rest, suppress(OSError):
            while rest.write(bytes(4096)):
                pass
        for uid in (0, UID):
            _says(bin_folder / "svcctl", host, uid, "the disk of", "full", "make room", reads=True)


def test_a_disk_that_can_only_be_read_is_not_damage(place: Path, bin_folder: Path) -> None:
    with _disk(place / "disk", 16_384) as disk:
        host = _host(disk / "host")
        with closing(sqlite3.connect(host / "svc.db")) as entry:
            entry.execute("PRAGMA journal_mode=WAL")
        give_away(host)
        remount = ["mount", "-o", "remount,ro", str(disk)]
        subprocess.run(remount, check=True, timeout=30)
        for uid in (0, UID):
            _says(bin_folder / "svcctl", host, uid, "is mounted read-only", reads=True)


def test_a_file_of_root_in_a_host_is_named(place: Path, bin_folder: Path) -> None:
    host = _host(place / "host")
    give_away(host)
    os.chown(host / "owner.key", 0, 0)
    done = run([bin_folder / "svcctl", "doctor", "--config", host], place, uid=UID)
    assert f"{host / 'owner.key'} belongs to root, but the host belongs to {UID}" in done.stdout
    assert f"chown -R {UID} {host}" in done.stdout


def test_a_file_of_root_deep_in_a_host_is_named(place: Path, bin_folder: Path) -> None:
    host = _host(place / "host")
    deep = host / "backups" / "old" / "file"
    deep.parent.mkdir(parents=True)
    deep.touch()
    give_away(host)
    os.chown(deep, 0, 0)
    done = run([bin_folder / "svcctl", "doctor", "--config", host], place, uid=UID)
    assert f"{deep} belongs to root, but the host belongs to {UID}" in done.stdout
