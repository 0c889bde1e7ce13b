"""A host that loses or duplicates data although it reports success: ``svcctl play`` must notice.

A trigger in the host's database alters the data. Two more tests replace the certificate that
players expect, and kill the metagame. Smaller changes are tested in tests/ctl/test_play_owned.py.
Real processes are needed because the tests change the host from outside while it runs.
"""

import json
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.ctl.hosts import PATIENCE_S, SVCCTL, demo_host, read_output, run, stack, value
from tests.live.test_stack import pid_of
from tests.support.processes import eventually


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """Run a host; yield its folder and the pid of its stack."""
    folder = demo_host(tmp_path_factory.mktemp("sabotage") / "host")
    with stack(folder) as process:
        eventually(lambda: "stack ready" in read_output(folder))
        yield folder, process.pid


@pytest.fixture
def folder(host: tuple[Path, int]) -> Path:
    return host[0]


def kinds(folder: Path) -> list[str]:
    """Return the kinds of the running game servers, as the deploy server lists them."""
    port = value(folder, "deploy", "PORT")
    with urlopen(f"http://127.0.0.1:{port}/gameservers", timeout=10) as reply:
        return sorted(server["kind"] for server in json.load(reply)["servers"])


def evening(folder: Path) -> tuple[int, str]:
    """Run ``svcctl play`` on the host; return the exit status and the output."""
    first = value(folder, "relay", "SVC_RELAY_PORT")
    ran = run("play", "--config", folder, "--players", 2, "--relay-port", first)
    return ran.returncode, ran.stderr + ran.stdout


@contextmanager
def thief(folder: Path, when: str, what: str) -> Iterator[None]:
    """Install a database trigger until the block ends."""

    def execute(words: str) -> None:
        with closing(sqlite3.connect(folder / "svc.db", timeout=30)) as db, db:
            db.execute(words)

    execute(f"CREATE TRIGGER thief {when} BEGIN {what}; END")
    try:
        yield
    finally:
        execute("DROP TRIGGER thief")


THEFTS = {
    "doubled loot": (
        "AFTER INSERT ON item_stacks",
        "UPDATE item_stacks SET quantity = 2 * quantity "
        "WHERE character_id = NEW.character_id AND catalog_id = NEW.catalog_id",
        r"metagame: \w+ earned .*, but the host re|metagame: .*'s stacks are not what was earned",
    ),
    "lost save": (
        "AFTER INSERT ON character_saves WHEN NEW.reason = 'save:client'",
        "DELETE FROM character_saves WHERE character_id = NEW.character_id "
        "AND reason = 'save:client' AND id < NEW.id",
        r"database: .* has 1 saves in the history instead of 3",
    ),
}


# slow: an evening of two groups
def test_groups_hunt_side_by_side_and_leave_only_the_city(folder: Path) -> None:
    first = value(folder, "relay", "SVC_RELAY_PORT")
    words = ("--players", 8, "--hunts", 3, "--relay-port", first)
    ran = run("play", "--config", folder, *words)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "2 parties met by invites" in ran.stdout
    assert "only the city runs" in ran.stdout


@pytest.mark.parametrize("theft", THEFTS)
def test_play_reports_items_that_are_lost_or_doubled(folder: Path, theft: str) -> None:
    when, what, words = THEFTS[theft]
    with thief(folder, when, what):
        status, deliveries = evening(folder)
    assert status == 1, deliveries
    assert re.search(words, deliveries), deliveries
    # The players leave an aborted hunt, so the game server ends without waiting for them.
    eventually(lambda: kinds(folder) == ["city"], 20)


def test_a_certificate_that_is_not_pinned_is_named(folder: Path, tmp_path: Path) -> None:
    pinned, second = folder / "gateway-cert.pem", demo_host(tmp_path / "other")
    stored = pinned.read_bytes()
    pinned.write_bytes((second / "gateway-cert.pem").read_bytes())
    try:
        status, deliveries = evening(folder)
    finally:
        pinned.write_bytes(stored)
    assert status == 1 and "at the gateway: " in deliveries, deliveries


def test_a_metagame_that_dies_in_mid_evening_and_stays_away_is_named(
    host: tuple[Path, int],
) -> None:
    """The stack is suspended first, because it would restart the metagame."""
    folder, starter = host
    first = value(folder, "relay", "SVC_RELAY_PORT")
    words = ("play", "--config", folder, "--players", 8, "--hunts", 9, "--relay-port", first)
    play = subprocess.Popen(
        [SVCCTL, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert play.stdout is not None
        for line in play.stdout:
            if "all have logged in" in line:
                break
        os.kill(starter, signal.SIGSTOP)
        metagame = pid_of(folder, "metagame")
        assert metagame is not None
        os.kill(metagame, signal.SIGKILL)
        out, deliveries = play.communicate(timeout=PATIENCE_S)
    finally:
        play.kill()
        os.kill(starter, signal.SIGCONT)
    assert play.returncode == 1, out
    assert deliveries.startswith("svcctl: the session failed at the metagame: "), deliveries
