"""An upgrade of the Debian package on a host with data and running services, and its removal."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svcserver.ctl.units import KEEPERS, SERVICES, unit
from tests.packages.support import LONGEST_BUILD_S, STACK_IS_READY, Alone, System, clean_system, run
from tests.support.packaging import recipe

pytestmark = pytest.mark.packages

SETTINGS, DATA = "/etc/svcserver", "/var/lib/svcserver"
OWN_DROP_IN = "etc/systemd/system/svc-metagame.service.d/mine.conf"
STACK = ("/usr/lib/svcserver/bin/twistd", "--nodaemon", "--pidfile=", "svc-stack")
NEWER = "0.999.1"
# the units are those that its own program writes, not the program in this environment; by
# PYTHONPATH pip, which it starts, would find the program there and install none
AS_ITS_OWN = """\
import runpy, sys
_, source, script, dist = sys.argv
sys.path[:0] = [source, source + "/packaging"]
sys.argv = [script, dist]
runpy.run_path(script, run_name="__main__")
"""
INSTALL = ("apt-get", "install", "-y", "-q", "--no-install-recommends")
# a system in a folder has no systemd, so the package's requests to it are recorded
SYSTEMCTL = """\
#!/bin/sh
echo "$@" >> /tmp/systemctl.log
"""
RESTARTED = [
    *(unit(name) for name in SERVICES),
    *(name for name in KEEPERS if "backup.s" not in name),
]


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a package of a later version, whose programs report that version."""
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("newer")
    recipe("building.py").copied(source)
    project = source / "pyproject.toml"
    text = re.sub(r'(?m)^version = ".*"$', f'version = "{NEWER}"', project.read_text())
    project.write_text(text)
    build = (sys.executable, "-c", AS_ITS_OWN, source, source / "packaging" / "deb.py", dist)
    year = "1893456000"  # later than any commit
    run(*build, patience_s=LONGEST_BUILD_S, SOURCE_DATE_EPOCH=year)
    [made] = dist.glob(f"svcserver_{NEWER}_*.deb")
    return made


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[tuple[System, Alone]]:
    """Set up a host like an owner's: installed, configured by hand, and with players' data."""
    system = clean_system(tmp_path_factory.mktemp("system"))
    system.run(*INSTALL, system.copy(package))
    places = ("--data", DATA, "--public-host", "127.0.0.1", "--owner", "Olga")
    system.run("svcctl", "init", SETTINGS, *places, user="svc")
    env = system.root / "etc/svcserver/allowlist.env"
    env.write_text(env.read_text() + "ALLOWLIST_ALLOW_PRIVATE=1\n")
    drop_in = system.root / OWN_DROP_IN
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("[Service]\nMemoryMax=1G\n")
    (system.root / "etc/svcserver/notes.txt").write_text("Olga's own\n")
    systemctl = system.root / "usr/bin/systemctl"
    systemctl.write_text(SYSTEMCTL)
    systemctl.chmod(0o755)
    (system.root / "run/systemd/system").mkdir(parents=True)
    with system.alone() as alone:
        yield system, alone


# slow: a Debian, a second package, two installations and two evenings on a whole host
def test_a_newer_deb_is_installed_while_the_services_run(
    host: tuple[System, Alone], newer: Path
) -> None:
    system, alone = host
    with alone.running(*STACK, "--config", SETTINGS, user="svc", until=STACK_IS_READY):
        plays(alone)
        players, settings, data = (
            accounts(alone),
            read_files(system, "etc"),
            read_files(system, "var/lib"),
        )
        log = system.root / "tmp/systemctl.log"
        log.unlink(missing_ok=True)
        system.run(*INSTALL, system.copy(newer))
        assert restarted(log.read_text()) == {*RESTARTED, "svcserver.target"}
        assert NEWER in system.run("svcctl", "--version")
        assert accounts(alone) == players  # answered by the old services, which a restart ends
        assert read_files(system, "etc") == settings
        assert set(data) <= set(read_files(system, "var/lib"))
    with alone.running(*STACK, "--config", SETTINGS, user="svc", until=STACK_IS_READY):
        assert accounts(alone) == players
        plays(alone)
        assert players < accounts(alone)


# slow: an installation, three starts of a whole host and an evening
def test_a_purged_deb_leaves_the_host_and_a_new_deb_finds_it(
    host: tuple[System, Alone], newer: Path
) -> None:
    system, alone = host
    with alone.running(*STACK, "--config", SETTINGS, user="svc", until=STACK_IS_READY):
        players = accounts(alone)
    before = read_files(system, "etc"), read_files(system, "var/lib")
    system.run("apt-get", "remove", "-y", "-q", "svcserver")
    assert (read_files(system, "etc"), read_files(system, "var/lib")) == before
    output = system.run("apt-get", "purge", "-y", "-q", "svcserver")
    assert f"players' saves are kept in {DATA}, the settings in {SETTINGS}" in output
    assert (read_files(system, "etc"), read_files(system, "var/lib")) == before
    assert not (system.root / "usr/lib/svcserver").exists()
    assert list((system.root / "lib/systemd/system").glob("svc*")) == []
    system.run(*INSTALL, system.copy(newer))
    assert (read_files(system, "etc"), read_files(system, "var/lib")) == before
    with alone.running(*STACK, "--config", SETTINGS, user="svc", until=STACK_IS_READY):
        assert accounts(alone) == players
        plays(alone)


def plays(alone: Alone) -> None:
    """Play a scripted session and keep its players and saves."""
    output = alone.run("svcctl", "play", "--keep", "--config", SETTINGS, user="svc")
    assert "all went well" in output


def accounts(alone: Alone) -> set[str]:
    """Return the names of all players."""
    listed = alone.run("svcctl", "account", "list", "--config", SETTINGS, user="svc")
    return {line.split()[0] for line in listed.splitlines() if line}


def read_files(system: System, folder: str) -> dict[str, tuple[bytes, int, int, int]]:
    """Return the content, mode and owner of each of the host's files.

    ``folder`` is /etc or /var/lib. The owner's drop-in for systemd is included.
    """
    top = system.root / folder / "svcserver"
    files = [top, *top.rglob("*"), system.root / OWN_DROP_IN]
    files_kept = {}
    for path in files:
        how = path.stat()
        text = path.read_bytes() if path.is_file() else b""
        files_kept[str(path)] = (text, how.st_mode, how.st_uid, how.st_gid)
    return files_kept


def restarted(log: str) -> set[str]:
    """Return the units that the package's scripts restarted."""
    return {
        word
        for line in log.splitlines()
        if "restart" in line.split()
        for word in line.split()
        if word.startswith("svc")
    }
