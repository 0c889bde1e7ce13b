"""The Debian package: installed on a clean Debian, played on, upgraded, removed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from svcserver.ctl.units import KEEPERS
from tests.packages.support import STACK_IS_READY, System, clean_system, run

pytestmark = pytest.mark.packages

SETTINGS, DATA = "/etc/svcserver", "/var/lib/svcserver"
STACK = ("/usr/lib/svcserver/bin/twistd", "--nodaemon", "--pidfile=", "svc-stack")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, package: Path) -> System:
    made = clean_system(tmp_path_factory.mktemp("system"))
    path = made.copy(package)
    made.run("apt-get", "install", "-y", "-q", "--no-install-recommends", path)
    return made


def test_lintian_finds_nothing(package: Path) -> None:
    said = run("lintian", "--allow-root", "--fail-on", "error,warning", package)
    assert not re.search(r"^[EW]:", said, re.MULTILINE), said


def test_it_holds_nothing_that_the_build_compiled(package: Path) -> None:
    """That names the folder of the build; an installation compiles its own."""
    assert "__pycache__" not in run("dpkg-deb", "--contents", package)


def test_everything_in_it_bears_the_time_of_the_build(package: Path) -> None:
    """And none that of a checkout, by which two clones' packages differed."""
    lines = run("dpkg-deb", "--contents", package).splitlines()
    assert len({tuple(line.split()[3:5]) for line in lines}) == 1


def test_it_plays_an_evening_as_its_own_user(system: System) -> None:
    places = ("--data", DATA, "--public-host", "127.0.0.1", "--owner", "Olga")
    system.run("svcctl", "init", SETTINGS, *places, user="svc")
    env = system.root / "etc/svcserver/allowlist.env"
    env.write_text(env.read_text() + "ALLOWLIST_ALLOW_PRIVATE=1\n")
    with system.alone() as alone:
        command = (*STACK, "--config", SETTINGS)
        with alone.running(*command, user="svc", until=STACK_IS_READY):
            said = alone.run("svcctl", "play", "--keep", "--config", SETTINGS, user="svc")
    assert "all went well" in said


def test_its_units_run_only_where_a_host_was_made(system: System) -> None:
    units = sorted((system.root / "lib/systemd/system").glob("svc*"))
    assert [one.name for one in units] == [
        "svc-allowlist.service",
        "svc-backup.service",
        "svc-backup.timer",
        "svc-content.service",
        "svc-deploy.service",
        "svc-gateway.service",
        "svc-metagame.service",
        "svc-watch.service",
        "svcserver.target",
    ]
    for unit in units[:-1]:
        component = unit.stem.removeprefix("svc-")
        component = "metagame" if unit.name in KEEPERS else component
        assert f"ConditionPathExists={SETTINGS}/{component}.env\n" in unit.read_text()
    wanted = system.root / "etc/systemd/system/multi-user.target.wants/svcserver.target"
    assert wanted.is_symlink()


def test_installing_again_and_removing_leave_every_setting_and_all_data(
    system: System, package: Path
) -> None:
    folders = [system.root / "etc/svcserver", system.root / "var/lib/svcserver"]

    def contents() -> dict[str, bytes]:
        files = [one for folder in folders for one in folder.rglob("*") if one.is_file()]
        return {str(one): one.read_bytes() for one in files}

    before = contents()
    assert f"{folders[1]}/svc.db" in before
    system.run("apt-get", "install", "-y", "-q", "--reinstall", system.copy(package))
    assert contents() == before
    system.run("apt-get", "purge", "-y", "-q", "svcserver")
    assert contents() == before
    assert not (system.root / "usr/lib/svcserver").exists()
