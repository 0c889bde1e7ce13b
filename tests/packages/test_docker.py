"""compose.yaml with Docker: as a stack of a swarm, and with docker-compose.

The engine and its swarm are the test's own, in their own network. The tests run the commands of
docs/owners/container.md.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import frozen

from tests.live.players_host import LAUNCHER
from tests.live.swarm_engine import SwarmMachine, fleet
from tests.packages import engines, outside
from tests.packages.pages import block, paste
from tests.packages.support import PATIENCE_S, ROOT, run
from tests.support.processes import eventually
from tests.support.requirements import skip

pytestmark = pytest.mark.packages

PORT = "8443"
PAGE = "container.md"
STATUS = ("svcctl", "status", "--config", "/data")
ACCOUNTS = ("svcctl", "account", "list", "--config", "/data")


@frozen
class DockerHost:
    """A host whose containers run in the machine's engine."""

    machine: SwarmMachine
    folder: Path

    @property
    def container(self) -> str:
        """The id of the host's container; empty while it does not run."""
        words = ("ps", "-q", "--filter", "name=svcserver[._-]svcserver")
        return self.machine.docker(*words).stdout.strip()

    def answers(self) -> bool:
        container = self.container
        if not container:
            return False
        return self.machine.docker("exec", container, *STATUS, check=False).returncode == 0

    def joins(self, name: str) -> None:
        """Let a friend register in the launcher, through the published port."""
        join = outside.invite(self.container, "docker")
        enter = ("nsenter", f"--net=/run/netns/{self.machine.namespace}", LAUNCHER)
        joined = outside.joins(self.folder / name, join, name, enter)
        assert (joined.host, joined.port) == (self.machine.address, int(PORT))

    def kill(self) -> None:
        """Kill the host's container as a crash does, and wait until another one answers."""
        before = self.machine.docker("inspect", "--format", "{{.State.Pid}}", self.container).stdout
        os.kill(int(before), signal.SIGKILL)
        eventually(lambda: before != self._pid and self.answers(), PATIENCE_S, 1)

    @property
    def _pid(self) -> str:
        words = ("inspect", "--format", "{{.State.Pid}}", self.container)
        return self.machine.docker(*words, check=False).stdout


@pytest.fixture
def host(release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DockerHost]:
    """Write the files for a host, and load the images into an engine that is a swarm's manager."""
    [archive] = release.glob("*-image.tar")
    with fleet(1, joined=1, networks=True) as [machine]:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{machine.socket}")
        run("docker", "load", "-q", "-i", archive)
        lines = []
        for name, image in (("DATABASE", engines.database()), ("LIVE", engines.live())):
            saved = tmp_path / "image.tar"
            run("podman", "save", "-q", "-o", saved, image)
            run("docker", "load", "-q", "-i", saved)
            saved.unlink()
            lines.append(f"SVC_{name}_IMAGE={image}\n")
        folder = tmp_path / "svcserver"  # the name of the project
        folder.mkdir()
        shutil.copy(ROOT / "compose.yaml", folder)
        own = {"play.example.org": machine.address, "=443": f"={PORT}", "YourName": "Olga"}
        paste(block(PAGE, "POSTGRES_PASSWORD", own), folder)
        with (folder / ".env").open("a") as env:
            env.writelines(lines)
        yield DockerHost(machine, folder)


# slow: the image is built, and a host of six processes starts twice
def test_a_stack_survives_a_killed_container(host: DockerHost) -> None:
    output = paste(block(PAGE, "docker stack deploy"), host.folder)
    assert "Ignoring" not in output.replace("Ignoring unsupported options: restart", "")
    eventually(host.answers, PATIENCE_S, 1)
    host.joins("Ada")
    host.kill()
    assert "Ada" in host.machine.docker("exec", host.container, *ACCOUNTS).stdout
    host.joins("Bob")


# slow: as above
def test_docker_compose_survives_a_killed_container(host: DockerHost) -> None:
    if shutil.which("docker-compose") is None:
        raise skip("docker", "docker-compose is missing")
    paste("docker-compose up -d", host.folder)
    try:
        eventually(host.answers, PATIENCE_S, 1)
        host.joins("Ada")
        host.kill()
        assert "Ada" in host.machine.docker("exec", host.container, *ACCOUNTS).stdout
        host.joins("Bob")
    finally:
        paste("docker-compose down -t 40", host.folder)
