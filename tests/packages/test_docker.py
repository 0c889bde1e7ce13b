"""compose.yaml with Docker: as a stack of a swarm, and with docker-compose.

The test has its own engine with a swarm, in a separate network. The tests run the commands of
docs/owners/container.md.
"""

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
        """The id of the host's container, or "" while it does not run."""
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
        """Kill the host's container as a crash does, and wait until a new container answers."""
        before = self.machine.docker("inspect", "--format", "{{.State.Pid}}", self.container).stdout
        os.kill(int(before), signal.SIGKILL)
        eventually(lambda: before != self._pid and self.answers(), PATIENCE_S, 1)

    def end(self) -> None:
        """Remove everything that the engine has except images."""
        self.machine.docker("stack", "rm", "svcserver", check=False)
        command = "docker ps -aq --filter name=svcserver | xargs -r docker rm -f"
        eventually(lambda: not paste(f"{command}; docker ps -aq", self.folder), PATIENCE_S, 1)
        paste("docker volume ls -q | xargs -r docker volume rm", self.folder)

    @property
    def _pid(self) -> str:
        words = ("inspect", "--format", "{{.State.Pid}}", self.container)
        return self.machine.docker(*words, check=False).stdout


@pytest.fixture(scope="module")
def machine(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwarmMachine]:
    """Start an engine that has the images and is the manager of a swarm."""
    [archive] = release.glob("*-image.tar")
    folder = tmp_path_factory.mktemp("images")
    with fleet(1, joined=1, networks=True) as [machine]:
        for image in (engines.database(), engines.live()):
            saved = folder / f"{image.rpartition('/')[2]}.tar"
            run("podman", "save", "-q", "-o", saved, image)
            run("podman", "rmi", image)
        for path in (archive, *folder.iterdir()):
            run("docker", "-H", f"unix://{machine.socket}", "load", "-q", "-i", path)
        yield machine


@pytest.fixture
def host(
    machine: SwarmMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DockerHost]:
    """Write the files for a host, and remove its volumes at the end."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{machine.socket}")
    folder = tmp_path / "svcserver"  # the name of the project
    folder.mkdir()
    shutil.copy(ROOT / "compose.yaml", folder)
    own = {"play.example.org": machine.address, "=443": f"={PORT}", "YourName": "Olga"}
    paste(block(PAGE, "POSTGRES_PASSWORD", own), folder)
    with (folder / ".env").open("a") as env:
        env.write("SVC_DATABASE_IMAGE=localhost/svc-test-postgresql\n")
        env.write("SVC_LIVE_IMAGE=localhost/svc-test-live\n")
    host = DockerHost(machine, folder)
    yield host
    host.end()


# slow: images are built, and a host of six processes starts twice
def test_a_stack_survives_a_killed_container(host: DockerHost) -> None:
    paste(block(PAGE, "docker stack deploy"), host.folder)
    plays(host)


# slow: a host of six processes starts twice
def test_docker_compose_survives_a_killed_container(host: DockerHost) -> None:
    if shutil.which("docker-compose") is None:
        raise skip("docker", "docker-compose is missing")
    paste("docker-compose up -d", host.folder)
    plays(host)


def plays(host: DockerHost) -> None:
    """Check that friends can join before and after a crash of the host's container."""
    eventually(host.answers, PATIENCE_S, 1)
    host.joins("Ada")
    host.kill()
    assert "Ada" in host.machine.docker("exec", host.container, *ACCOUNTS).stdout
    host.joins("Bob")
