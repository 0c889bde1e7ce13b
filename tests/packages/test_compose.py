"""The unchanged compose.yaml: two metagames, PostgreSQL and a live-state engine in containers.

The tests run the commands of docs/owners/container.md. The images of PostgreSQL and the engine are
made of Debian's packages, because tests download nothing from image registries.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from tests.packages import engines, images, outside
from tests.packages.pages import block, paste, went_well
from tests.packages.support import PATIENCE_S, ROOT, run
from tests.support.proves import proves

pytestmark = pytest.mark.packages

PROJECT = f"svctest{os.getpid()}"
PORT = 28443  # which anybody may publish, unlike 443
PAGE = "container.md"
ARCHIVE, NEWER = "svcserver-0.2.0-image.tar", "svcserver-NEW-image.tar"
OWN = {"play.example.org": "127.0.0.1", "=443": f"={PORT}", "YourName": "Olga"}
HOST = f"{PROJECT}_svcserver_1"
RESTORE = "--entrypoint=svcctl svcserver db restore"
ACCOUNTS = ("svcctl", "account", "list", "--config", "/data")


@frozen
class Compose:
    """The folder that holds compose.yaml, and the release's image."""

    folder: Path
    archive: Path
    version: str

    def takes(self, version: str) -> None:
        """Set the image version that the next start uses."""
        env = self.folder / ".env"
        env.write_text(re.sub("(?m)^SVC_VERSION=.*$", f"SVC_VERSION={version}", env.read_text()))

    def paste(self, has: str, names: dict[str, str] | None = None) -> str:
        """Run a block of the page and return its output."""
        return paste(block(PAGE, has, names), self.folder)

    @property
    def password(self) -> str:
        return (self.folder / "database.env").read_text().split()[0].partition("=")[2]


@pytest.fixture(scope="module")
def machine(image: str) -> Iterator[dict[str, str]]:
    """Yield the variables in .env for a machine without an image registry."""
    database, live = engines.database(), engines.live()
    version = image.rpartition(":")[2]
    yield {"SVC_VERSION": version, "SVC_DATABASE_IMAGE": database, "SVC_LIVE_IMAGE": live}
    run("podman", "rmi", "-f", database, live)


@pytest.fixture
def host(machine: dict[str, str], release: Path, tmp_path: Path) -> Iterator[Compose]:
    """Start the containers by the page's commands for the first start."""
    folder = tmp_path / PROJECT
    folder.mkdir()
    shutil.copy(ROOT / "compose.yaml", folder)
    [archive] = release.glob("*-image.tar")
    made = Compose(folder, archive, machine["SVC_VERSION"])
    made.paste("POSTGRES_PASSWORD", OWN)
    for name in ("database.env", "live.env"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    with (folder / ".env").open("a") as env:
        env.writelines(f"{name}={value}\n" for name, value in machine.items())
    first = block(PAGE, f"podman load -i {ARCHIVE}\npodman-compose up", {ARCHIVE: str(archive)})
    start, up, look = first.partition("podman-compose up -d\n")
    with images.name_kept(archive):  # the page loads the image by its usual name
        try:
            output = paste(start + up, folder)
            ended = set(re.findall(r"(?m)^exit code: (\d+)$", output))
            assert ended == {"0"}, output  # the ports are free
            ready(times=1)  # the container may restart until its database exists
            output += paste(look, folder)
            assert went_well(output), output
            assert made.password not in output
            yield made
        finally:
            paste(f"podman-compose down -v -t 40; podman network rm {PROJECT}_default", folder)


# slow: two engines' images are made, and a host of six processes starts three times
def test_two_metagames_play_and_keep_everything_over_a_restart(
    host: Compose, tmp_path: Path
) -> None:
    key = host.paste("cat /data/owner.key")
    assert went_well(key) and "svc://join" in key, key
    assert len(host.password) == 32
    lines = run("sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' || true")
    assert HOST in lines and host.password not in lines
    assert host.password not in host.paste("podman-compose logs")
    joined = outside.joins(tmp_path / "ada", outside.invite(HOST), "Ada")
    assert joined.port == PORT
    inside("sh", "-c", "echo ALLOWLIST_ALLOW_PRIVATE=1 >> /data/allowlist.env")
    # as if the container did not know the host's name
    inside("sed", "-i", "s/^MY_IP=.*/MY_IP=/", "/data/deploy.env")
    host.paste("MY_IP=", {"203.0.113.10": "127.0.0.1"})
    ready(times=2)
    assert "all went well" in inside("svcctl", "play", "--keep", "--config", "/data")
    assert "stack ready: metagame-1, metagame-2, " in run("podman", "logs", HOST)
    # far longer than the page's: only who does not listen is killed, not who shares a busy machine
    key = host.paste("podman-compose stop -t 40", {"-t 40": "-t 200"})
    stopped = re.findall(rf"(?m)^podman stop -t 200 {PROJECT}_(\w+)_1$", key)
    assert stopped == ["svcserver", "live", "database"] and "SIGKILL" not in key, key
    ready(times=3)
    accounts = inside(*ACCOUNTS)
    assert len(accounts.splitlines()) >= 6  # the owner, four players and Ada


# slow: a backup is restored and played on
@proves("svcctl backup now|list|prove|restore")
def test_nightly_backup_of_postgresql_is_made_and_proven(host: Compose) -> None:
    # Docker waits for this health check
    run("podman", "healthcheck", "run", f"{PROJECT}_database_1")
    # the command that the stack starts at BACKUP_AT, here on a read-only root
    output = inside("svcctl", "backup", "nightly", "--config", "/data")
    assert "restored into a temporary host" in output, output
    listed = json.loads(inside("svcctl", "backup", "list", "--json", "--config", "/data"))
    [backup] = listed["backups"]
    assert backup["proven"] and backup["file"].startswith("/data/backups/")
    assert listed["wrong"] is None
    host.paste("podman cp", {"NAME": HOST})
    [copy] = host.folder.glob(f"backups-*/{Path(backup['file']).name}")
    assert copy.stat().st_size > 0
    assert inside("date", "+%Z") == "UTC\n"
    assert inside("env", "TZ=Europe/Paris", "date", "+%Z") in {"CET\n", "CEST\n"}


# slow: five starts of a host, and two friends who join
def test_a_new_version_upgrades_the_host_and_can_be_rolled_back(
    host: Compose, tmp_path: Path
) -> None:
    outside.joins(tmp_path / "ada", outside.invite(HOST), "Ada")
    assert went_well(host.paste("podman-compose exec svcserver svcctl drain on --wait"))
    made = host.paste("podman-compose exec svcserver svcctl db backup")
    assert went_well(made), made
    [backup] = set(re.findall(r"/data/before-[0-9-]+", made))
    newer = f"next-{os.getpid()}"
    run("podman", "tag", f"localhost/svcserver:{host.version}", f"localhost/svcserver:{newer}")
    try:
        host.takes(newer)
        newer_one = {NEWER: str(host.archive)}
        output = host.paste(f"podman load -i {NEWER}\npodman-compose down", newer_one)
        assert went_well(output), output
        assert run("podman", "inspect", HOST, "--format", "{{.ImageName}}").endswith(f"{newer}\n")
        outside.joins(tmp_path / "bob", outside.invite(HOST), "Bob")
        host.takes(host.version)
        back = block(PAGE, "podman\npodman-compose down -t 40\npodman-compose up -d\n")
        assert went_well(paste(back, host.folder))
        assert "Bob" in inside(*ACCOUNTS)
        assert not went_well(host.paste(RESTORE))  # as the page has it: a name of no backup
        assert HOST not in run("podman", "ps", "-a", "--format", "{{.Names}}").split()
        output = host.paste(RESTORE, {"/data/before-DATE-TIME": backup})
        assert output.rstrip().endswith("exit code: 0"), output
        started = block(PAGE, "podman\npodman-compose up -d\n")
        assert went_well(paste(started, host.folder))
        accounts = inside(*ACCOUNTS)
        assert "Ada" in accounts and "Bob" not in accounts
    finally:
        run("podman", "untag", f"localhost/svcserver:{newer}", f"localhost/svcserver:{newer}")


def ready(times: int) -> None:
    """Wait until the log has reported ``times`` times that the gateway is ready."""
    deadline = time.monotonic() + PATIENCE_S
    while run("podman", "logs", HOST).count("gateway ready") < times:
        assert time.monotonic() < deadline, run("podman", "logs", HOST)
        time.sleep(0.5)


def inside(*words: str) -> str:
    """Run a command in the host's container and return its output.

    If the command fails, the error includes the database's log.
    """
    try:
        return run("podman", "exec", HOST, *words)
    except AssertionError as why:
        logs = run("sh", "-c", f"podman logs --tail 20 {PROJECT}_database_1 2>&1")
        raise AssertionError(f"{why}\nthe database says:\n{logs}") from why
