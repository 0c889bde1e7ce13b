"""Nightly backups of a running stack: a good backup passes verification, a damaged backup fails.

The stack restores a backup as a second host, and verifies the backup by a scripted session on that
host. The overview page shows the result. Real processes are needed because the second host runs on
its own ports.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson
import pytest
from playwright.sync_api import expect
from sqlalchemy import NullPool, create_engine
from twisted.scripts import twistd

from svcserver.ctl.blueprint import Scale
from svcserver.kernel import backups
from svcserver.stack import backups as nights
from tests.ctl.hosts import PATIENCE_S, SVCCTL, demo_host, read_output, run, value
from tests.live.owners_pictures import TIMEZONE
from tests.live.real_browser import chromium
from tests.support import prestarted
from tests.support.postgres import Instance
from tests.support.processes import eventually
from tests.support.proves import proves

pytestmark = pytest.mark.live
SVC_TWISTD = str(Path(sys.executable).with_name("twistd"))


def by_night() -> None:
    """Run ``svc-stack`` so that it immediately makes a nightly backup that it has missed."""
    nights.SETTLE_S, nights.CHECK_S = 0.0, 0.5
    sys.argv[0] = SVC_TWISTD
    twistd.run()


@contextmanager
def night(folder: Path, scratch: Path) -> Iterator[None]:
    """Run a host's stack, which makes the nightly backup; ``scratch`` holds temporary files."""
    words = ["--nodaemon", "--pidfile=", "svc-stack", "--config", str(folder)]
    name = f"{__name__}:{by_night.__name__}"
    environ = {**os.environ, "TMPDIR": str(scratch)}
    with (folder / "out.log").open("wb") as out:
        process = prestarted.start(words, environ, folder, out.fileno(), program=name)
    try:
        eventually(lambda: "stack ready" in read_output(folder), PATIENCE_S)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


# slow: a whole host is restored, started and played on beside a running one
@proves("svcctl backup: a damaged one is noticed")
def test_the_overview_shows_a_proven_backup_and_a_damaged_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = demo_host(tmp_path / "host")
    scratch = tmp_path / "scratch"
    (scratch / "svc-drill-killed" / "host").mkdir(parents=True)  # left by a drill of another night
    lines = ("BACKUP_PASSPHRASE=correct horse battery", "BACKUP_SECRETS=1", "BACKUP_NICE=0", "")
    (folder / "stack.env").write_text("\n".join(lines))
    with chromium() as browser, night(folder, scratch):
        monkeypatch.setenv("TMPDIR", str(scratch))
        page = browser.new_context(locale="en-GB", timezone_id=TIMEZONE).new_page()
        page.goto(f"http://127.0.0.1:{value(folder, 'metagame', 'PORT')}/svc/dashboard")
        page.get_by_label("Account key").fill((folder / "owner.key").read_text().strip())
        page.get_by_role("button", name="Sign in", exact=True).click()
        tile = page.locator(".tile", has_text="Backup")

        def drilled() -> bool:
            known = backups.read(folder)
            return known is not None and known.tried is not None and known.begun is None

        eventually(drilled, PATIENCE_S)
        known = backups.read(folder)
        assert known is not None and known.newest is not None
        assert known.wrong(time.time()) is None, read_output(folder)
        assert known.newest.proven is not None and known.newest.encrypted
        at = datetime.fromtimestamp(known.newest.proven, ZoneInfo(TIMEZONE))
        expect(tile).to_contain_text("Tested")
        expect(tile).to_contain_text(f"by a simulated session, {at.day} ")
        assert not list(scratch.glob("*svc-drill-*"))

        file = Path(known.newest.file)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
        proof = run("backup", "prove", "--json", "--config", folder)
        assert proof.returncode == 1
        assert orjson.loads(proof.stdout)["proven"] is False
        expect(tile.locator(".bad")).to_have_text("Needs attention")
        expect(tile).to_contain_text("damaged")
    assert not list(scratch.glob("*svc-drill-*"))


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
        assert wrong(folder) is None  # the host keeps running
    finally:
        night.kill()
        night.wait(60)
    assert "did not finish" in (wrong(folder) or "")


def wrong(folder: Path) -> str | None:
    """Return the fault of the host's backups that the overview and alerts show."""
    known = backups.read(folder)
    assert known is not None
    return known.wrong(time.time())


# slow: a whole host is restored into a new database, started and played on
@proves("svcctl backup now|list|prove|restore")
def test_a_proof_of_a_postgresql_backup_leaves_no_database(tmp_path: Path) -> None:
    """The database role has no special rights, and its password needs percent-encoding."""
    server = Instance.make("hush:@/ %20")
    server.start()
    try:
        _is_proven(tmp_path / "host", server.own()[0])
    finally:
        server.end()


def _is_proven(host: Path, url: str) -> None:
    folder = demo_host(host, Scale(database=url))
    made = run("backup", "now", "--prove", "--json", "--config", folder)
    assert made.returncode == 0, made.stderr
    assert orjson.loads(made.stdout)["proven"]
    with create_engine(url, poolclass=NullPool).connect() as server:
        there = server.exec_driver_sql("SELECT datname FROM pg_database").scalars().all()
    assert not [entry for entry in there if entry.startswith("svc_drill_")]
    [disk, *_] = orjson.loads(run("capacity", "--json", "--config", folder).stdout)["disks"]
    sizes = {entry["name"]: entry["mb"] for entry in disk["fills"]}
    assert sizes["database"] > 1  # an empty database has more than this
