"""The wheel and the sdist: installed by pip and by pipx, upgraded from 0.1.0 with a full host."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packages.support import EARLIER, STACK_IS_READY, System, clean_system, run

pytestmark = pytest.mark.packages

PUBLIC = ("--public-host", "127.0.0.1:8443", "--owner", "Olga")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> System:
    return clean_system(tmp_path_factory.mktemp("system"), "python3-venv", "pipx", "adduser")


def test_the_sdist_carries_what_a_contributor_needs_and_nothing_else(release: Path) -> None:
    [made] = release.glob("svcserver-*.tar.gz")
    with tarfile.open(made) as archive:
        names = {one.name.partition("/")[2] for one in archive if one.isfile()}
    tracked = set(filter(None, run("git", "ls-files").split("\n")))
    assert tracked - names == set()
    added = {one for one in names - tracked if not one.startswith("svcserver.egg-info/")}
    assert added == {"PKG-INFO"}


def test_the_wheel_carries_every_file_of_the_program_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tracked = set(run("git", "ls-files", "svcserver", "twisted").split())
    assert tracked - names == set()
    added = {
        one for one in names - tracked if not re.match(r"svcserver-[^/]*\.(dist-info|data)/", one)
    }
    assert added == set()


def test_pip_installs_it_and_up_is_the_first_command(system: System, wheel: Path) -> None:
    path = system.copy(wheel)
    system.run("python3", "-m", "venv", "/opt/pip")
    system.run("/opt/pip/bin/pip", "install", "-q", path)
    plays(system, "/opt/pip/bin/svcctl", "/srv/pip")


def test_pipx_installs_it_and_up_is_the_first_command(system: System, wheel: Path) -> None:
    system.run("pipx", "install", system.copy(wheel))
    plays(system, "/root/.local/bin/svcctl", "/srv/pipx")


# slow: a Debian, an installation of everything and an evening on a whole host
def test_pip_installs_the_sdist_with_its_pinned_dependencies(system: System, release: Path) -> None:
    """What a distribution builds from: its own list of versions, and the project without others."""
    [made] = release.glob("svcserver-*.tar.gz")
    project = made.name.removesuffix(".tar.gz")
    with tarfile.open(made) as archive:
        lock = archive.extractfile(f"{project}/requirements/run.lock")
        assert lock is not None
        (system.root / "tmp" / "run.lock").write_bytes(lock.read())
    pip = ("/opt/sdist/bin/pip", "install", "-q")
    system.run("python3", "-m", "venv", "/opt/sdist")
    system.run(*pip, "--require-hashes", "--only-binary", ":all:", "-r", "/tmp/run.lock")
    system.run(*pip, "--no-deps", system.copy(made))
    assert installed(system.root / "opt/sdist") == set(
        run("git", "ls-files", "svcserver", "twisted").split()
    )
    plays(system, "/opt/sdist/bin/svcctl", "/srv/sdist")


def installed(environment: Path) -> set[str]:
    """The files of the program in a virtual environment, without what Python compiled."""
    [packages] = environment.glob("lib/python3*/site-packages")
    files = [*packages.glob("svcserver/**/*"), packages / "twisted/plugins/svcserver_plugins.py"]
    return {
        str(one.relative_to(packages))
        for one in files
        if one.is_file() and "__pycache__" not in one.parts
    }


def plays(system: System, svcctl: str, folder: str) -> None:
    """``svcctl up``, and an evening on the host that it makes."""
    with system.alone() as alone:
        up = (svcctl, "up", folder, "--yes", *PUBLIC)
        with alone.running(*up, user="root", until="Ctrl-C stops it"):
            assert "all went well" in alone.run(svcctl, "play", "--config", folder)


def test_a_full_host_of_the_first_release_is_upgraded(system: System, wheel: Path) -> None:
    svcctl, folder = "/opt/upgraded/bin/svcctl", "/srv/upgraded"
    system.run("python3", "-m", "venv", "/opt/upgraded")
    system.run("/opt/upgraded/bin/pip", "install", "-q", system.copy(EARLIER))
    system.run(svcctl, "init", folder, "--public-host", "127.0.0.1", "--owner", "Olga")
    gateway = system.root / "srv/upgraded/gateway.env"
    gateway.write_text(gateway.read_text().replace("GATEWAY_PORT=443", "GATEWAY_PORT=8443"))
    stack = ("/opt/upgraded/bin/twistd", "--nodaemon", "--pidfile=", "svc-stack", "-c", folder)
    with system.alone() as alone:
        with alone.running(*stack, user="root", until=STACK_IS_READY):
            assert "all went well" in alone.run(svcctl, "play", "--config", folder)
        before = alone.run(svcctl, "account", "list", "--config", folder)
        system.run("/opt/upgraded/bin/pip", "install", "-q", system.copy(wheel))
        with alone.running(*stack, user="root", until=STACK_IS_READY):
            after = alone.run(svcctl, "account", "list", "--config", folder)
            assert "all went well" in alone.run(svcctl, "play", "--config", folder)
    names = [line.split()[0] for line in before.splitlines() if line]
    assert len(names) > 4
    assert all(name in after for name in names)
