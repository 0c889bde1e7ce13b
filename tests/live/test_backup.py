"""A backup is proven by an evening on it; one that was damaged on purpose is not.

Why processes: the evening that proves a backup is a whole host on its own ports.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import orjson
import pytest
from sqlalchemy import NullPool, create_engine

from svcserver.ctl.blueprint import Scale
from svcserver.kernel import backups
from tests.ctl.hosts import SVCCTL, demo_host, run
from tests.support.postgres import fresh_database
from tests.support.processes import eventually
from tests.support.proves import proves

pytestmark = pytest.mark.live


# slow: a whole host is restored, started and played on
@proves("svcctl backup: a damaged one is noticed")
def test_a_backup_is_proven_and_a_damaged_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = demo_host(tmp_path / "host")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    (folder / "stack.env").write_text("BACKUP_PASSPHRASE=correct horse battery\nBACKUP_SECRETS=1\n")
    made = run("backup", "now", "--prove", "--json", "--config", folder)
    assert made.returncode == 0, made.stderr
    backup = orjson.loads(made.stdout)
    assert backup["proven"]
    assert backup["encrypted"]

    file = Path(backup["file"])
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    proof = run("backup", "prove", "--json", "--config", folder)
    assert proof.returncode == 1
    assert orjson.loads(proof.stdout)["proven"] is False
    listed = orjson.loads(run("backup", "list", "--json", "--config", folder).stdout)
    assert "damaged" in listed["wrong"]
    assert not list(scratch.glob("svc-drill-*"))


@proves("svcctl backup: one that dies in the middle is noticed")
def test_a_nightly_backup_that_is_killed_is_noticed_at_once(tmp_path: Path) -> None:
    folder = demo_host(tmp_path / "host")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    night = subprocess.Popen(
        [SVCCTL, "backup", "nightly", "--config", folder],
        env={**os.environ, "TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: (known := backups.read(folder)) is not None and known.begun)
        assert wrong(folder) is None  # it goes on
    finally:
        night.kill()
        night.wait(60)
    assert "ended in the middle" in (wrong(folder) or "")


def wrong(folder: Path) -> str | None:
    """What is wrong with the host's backups, as the overview and alerts see it."""
    known = backups.read(folder)
    assert known is not None
    return known.wrong(time.time())


# slow: a whole host is restored into a new database, started and played on
@proves("svcctl backup now|list|prove|restore")
def test_a_backup_of_postgresql_is_proven_and_leaves_no_database_behind(tmp_path: Path) -> None:
    url = fresh_database()
    folder = demo_host(tmp_path / "host", Scale(database=url))
    made = run("backup", "now", "--prove", "--json", "--config", folder)
    assert made.returncode == 0, made.stderr
    assert orjson.loads(made.stdout)["proven"]
    with create_engine(url, poolclass=NullPool).connect() as server:
        there = server.exec_driver_sql("SELECT datname FROM pg_database").scalars().all()
    assert not [one for one in there if one.startswith("svc_drill_")]
