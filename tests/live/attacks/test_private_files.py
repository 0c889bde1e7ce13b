"""Files that services create under umask 022, and that other users must not be able to read.

Real processes are needed because the services run under another umask.
"""

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import cycle, islice
from pathlib import Path

import orjson
import pytest

from tests.ctl.command import svcctl
from tests.live.attacks.support import at_the_same_time, median_s, until_over
from tests.live.deploying import deploy
from tests.support.processes import bearer, eventually, metagame, register

pytestmark = [pytest.mark.live, pytest.mark.alone]  # measures how long others wait
BODY, MOST_BODIES = 64 * 1024, 1_000
MOST, FLOOR_S = 100, 0.5  # limits of the longest wait: times the idle wait, or seconds


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Set a shell's usual umask.

    With this umask, all users can read a new file unless the code prevents it.
    """
    before = os.umask(0o022)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_backup_of_a_host_in_use_is_one_private_file(tmp_path: Path) -> None:
    with metagame(tmp_path, CHAT="0") as service:
        register(service, "Ann_1")
        (tmp_path / "metagame.env").write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
        (tmp_path / "kept").mkdir()

        def write() -> None:
            for number in range(20):
                register(service, f"Player_{number}")

        with at_the_same_time(write):
            for number in range(3):
                copy = tmp_path / "kept" / f"copy{number}.db"
                ran = svcctl("db", "backup", copy, "--env-file", tmp_path / "metagame.env")
                assert ran.status == 0, ran.err
    files = sorted((tmp_path / "kept").iterdir())
    assert [file.name for file in files] == ["copy0.db", "copy1.db", "copy2.db"]  # no -wal, no -shm
    for file in files:
        assert _mode(file) == 0o600
        with closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert db.execute("SELECT count(*) FROM accounts").fetchone()[0] >= 1
    for file in tmp_path.glob("svc.db*"):
        assert _mode(file) == 0o600, file


def test_only_the_owner_can_read_game_server_logs(tmp_path: Path) -> None:
    with deploy(tmp_path):
        folder = tmp_path / "gameserver-logs"
        eventually(lambda: folder.is_dir() and any(folder.iterdir()))
        assert _mode(folder) == 0o700
        for path in folder.iterdir():
            assert _mode(path) == 0o600, path


def test_a_body_that_is_slow_to_redact_keeps_nobody_waiting(tmp_path: Path) -> None:
    file = tmp_path / "bodies.log"
    logging = {"LOG_BODIES": "1", "BODY_LOG_FILE": str(file), "BODY_LOG_PER_PATH": "0"}
    with metagame(tmp_path, CHAT="0", **logging) as service:
        ann, bob = register(service, "Ann_1"), register(service, "Bob_1")
        beginnings = ("eyJ", "UUK_", '"token":"', "\\\\", "a1-", '"a":', "0a")
        bodies = [(beginning * BODY)[: BODY - 40] for beginning in beginnings]

        sent = []

        def attack(over: threading.Event) -> None:
            for text in islice(cycle(bodies), MOST_BODIES):
                body = {"token": text, "x": text}
                sent.append(service.ask("POST", "/party", body, bearer(ann))[0])
                if over.is_set():
                    break

        def wait() -> float:
            began = time.monotonic()
            assert service.ask("GET", "/accountinfo", headers=bearer(bob))[0] == 200
            return time.monotonic() - began

        idle = median_s(wait)
        with until_over(attack, attack):
            waits = [wait() for _ in range(20)]
        assert max(waits) < max(MOST * idle, FLOOR_S), f"{waits} under attack, idle {idle}"
        lines = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    assert len([beginning for beginning in lines if beginning["path"] == "/party"]) == len(sent)
    assert len(bodies) <= len(sent) < MOST_BODIES and max(sent) < 500, sent
    assert _mode(file) == 0o600
    assert ann["token"] not in file.read_text()
