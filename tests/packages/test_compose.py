"""compose.yaml as it is: two metagames on PostgreSQL and an engine for live state, in containers.

The engines' images are made from Debian's packages here, since no registry is asked.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packages import engines, outside
from tests.packages.support import PATIENCE_S, ROOT, run
from tests.support.proves import proves

pytestmark = pytest.mark.packages

PROJECT = f"svctest{os.getpid()}"
PORT = 28443  # which anybody may publish, unlike 443
ACCOUNTS = ("svcctl", "account", "list", "--config", "/data")


@pytest.fixture(scope="module")
def environ(image: str) -> Iterator[dict[str, str]]:
    database, live = engines.database(), engines.live()
    yield {
        "SVC_VERSION": image.rpartition(":")[2],
        "SVC_DATABASE_IMAGE": database,
        "SVC_LIVE_IMAGE": live,
        "SVC_DATABASE_PASSWORD": "a-word-for-this-test",
        "SVC_PUBLIC_HOST": "127.0.0.1",
        "SVC_GATEWAY_PORT": str(PORT),
    }
    run("podman", "rmi", "-f", database, live)


@pytest.fixture
def host(environ: dict[str, str]) -> Iterator[str]:
    """The name of the running host's container."""
    compose("up", "-d", environ=environ)
    try:
        yield f"{PROJECT}_svcserver_1"
    finally:
        compose("down", "-v", "-t", "40", environ=environ)


def compose(*words: str, environ: dict[str, str]) -> str:
    return run("podman-compose", "-p", PROJECT, "-f", ROOT / "compose.yaml", *words, **environ)


# slow: two engines' images are made, and a host of six processes starts three times
def test_it_plays_on_two_metagames_and_keeps_everything_over_a_restart(
    host: str, environ: dict[str, str], tmp_path: Path
) -> None:
    ready(host, times=1)
    said = outside.joins(tmp_path / "ada", outside.invite(host), "Ada")
    assert said.port == PORT
    inside(host, "sh", "-c", "echo ALLOWLIST_ALLOW_PRIVATE=1 >> /data/allowlist.env")
    compose("restart", "-t", "40", environ=environ)
    ready(host, times=2)
    assert "all went well" in inside(host, "svcctl", "play", "--keep", "--config", "/data")
    assert "stack ready: metagame-1, metagame-2, " in run("podman", "logs", host)
    compose("restart", "-t", "40", environ=environ)
    ready(host, times=3)
    accounts = inside(host, *ACCOUNTS)
    assert len(accounts.splitlines()) >= 6  # the owner, four players and Ada


# slow: a backup is restored and played on
@proves("svcctl backup now|list|prove|restore")
def test_the_night_of_its_stack_makes_a_backup_of_postgresql_and_proves_it(
    host: str,
) -> None:
    ready(host, times=1)
    run("podman", "healthcheck", "run", f"{PROJECT}_database_1")  # what docker waits for
    # what the stack starts at BACKUP_AT, in its user's place: a root that nobody can write to
    said = inside(host, "svcctl", "backup", "nightly", "--config", "/data")
    assert "it was restored into scratch and played on" in said, said
    listed = json.loads(inside(host, "svcctl", "backup", "list", "--json", "--config", "/data"))
    [kept] = listed["backups"]
    assert kept["proven"] and kept["file"].startswith("/data/backups/")
    assert listed["wrong"] is None


def ready(host: str, times: int) -> None:
    """Wait until the whole host has been ready that often."""
    deadline = time.monotonic() + PATIENCE_S
    while run("podman", "logs", host).count("gateway ready") < times:
        assert time.monotonic() < deadline, run("podman", "logs", host)
        time.sleep(0.5)


def inside(host: str, *words: str) -> str:
    """The output of a command in the host's container; the database's own words where it fails."""
    try:
        return run("podman", "exec", host, *words)
    except AssertionError as why:
        said = run("sh", "-c", f"podman logs --tail 20 {PROJECT}_database_1 2>&1")
        raise AssertionError(f"{why}\nthe database says:\n{said}") from why
