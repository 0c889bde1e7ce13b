"""The Debian package: installed on a clean Debian, played on, upgraded, removed."""

from __future__ import annotations

import json
import re
from email.parser import HeaderParser
from pathlib import Path

import pytest

from svcserver.ctl.units import KEEPERS
from tests.packages.pages import block
from tests.packages.support import ROOT, STACK_IS_READY, System, clean_system, run

pytestmark = pytest.mark.packages

SETTINGS, DATA = "/etc/svcserver", "/var/lib/svcserver"
STACK = ("/usr/lib/svcserver/bin/twistd", "--nodaemon", "--pidfile=", "svc-stack")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory, package: Path) -> System:
    made = clean_system(tmp_path_factory.mktemp("system"))
    path = made.copy(package)
    made.run("apt-get", "install", "-y", "-q", "--no-install-recommends", path)
    return made


# slow: lintian reads all files of the package
def test_lintian_finds_nothing(package: Path) -> None:
    output = run("lintian", "--allow-root", "--fail-on", "error,warning", package)
    assert not re.search(r"^[EW]:", output, re.MULTILINE), output


def test_the_deb_contains_no_compiled_python_files(package: Path) -> None:
    """Compiled files name the build folder, so the package compiles its modules on installation."""
    assert "__pycache__" not in run("dpkg-deb", "--contents", package)


def test_every_file_of_the_deb_has_the_same_time(package: Path) -> None:
    """The times of a checkout would make the packages of two clones differ."""
    lines = run("dpkg-deb", "--contents", package).splitlines()
    assert len({tuple(line.split()[3:5]) for line in lines}) == 1


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    run("dpkg-deb", "-x", package, folder)
    return folder


def test_package_holds_grafana_board_owner_pages_and_changelog(
    unpacked: Path,
) -> None:
    board = (unpacked / "usr/share/svcserver/grafana.json").read_text()
    assert json.loads(board)["panels"]
    new = (unpacked / "usr/share/doc/svcserver/CHANGELOG.md").read_text()
    assert new == (ROOT / "CHANGELOG.md").read_text()
    for page in (ROOT / "docs" / "owners").glob("*.md"):
        shipped = unpacked / "usr/share/doc/svcserver" / page.name
        assert shipped.read_text() == page.read_text()


def test_copyright_names_each_project_its_licence_and_its_text(
    unpacked: Path,
) -> None:
    copyright = (unpacked / "usr/share/doc/svcserver/copyright").read_text()
    paragraphs = [text for text in copyright.split("\n\n") if text.startswith("Files: usr/")]
    packed = list((unpacked / "usr/lib/svcserver/lib").glob("python3*/*/*.dist-info"))
    assert len(packed) == len(paragraphs) > 40
    for package in packed:
        [paragraph] = [text for text in paragraphs if f"/{package.name}/*\n" in text]
        expression = HeaderParser().parsestr((package / "METADATA").read_text())[
            "License-Expression"
        ]
        name = re.search(r"(?m)^License: (.+)$", paragraph)
        assert name is not None, paragraph
        assert name[1].lower() == (expression or name[1]).lower()
        texts = re.findall(r"(?m)^ /(usr/lib/.+)$", paragraph)
        assert texts, paragraph
        assert [text for text in texts if not (unpacked / text).is_file()] == []
        for files in re.findall(r"(?m)^(?:Files:)? (usr/.+)$", paragraph):
            assert list(unpacked.glob(files)), files
    [driver] = [text for text in paragraphs if "/psycopg/*\n" in text]
    assert "License: LGPL-3.0-only\n" in driver


# slow: makes a Debian and installs the package, for all that use them, and plays an evening
def test_an_evening_succeeds_on_the_deb_as_the_svc_user(system: System) -> None:
    own = {"play.example.org": "127.0.0.1", "YourName": "Olga"}
    page = block("packages.md", "systemctl start svcserver.target", own)
    [init] = [line for line in page.splitlines() if "svcctl init" in line]
    system.run("sh", "-c", init.removeprefix("-u svc "), user="svc")
    env = system.root / "etc/svcserver/allowlist.env"
    env.write_text(env.read_text() + "ALLOWLIST_ALLOW_PRIVATE=1\n")
    with system.alone() as alone:
        command = (*STACK, "--config", SETTINGS)
        with alone.running(*command, user="svc", until=STACK_IS_READY):
            output = alone.run("svcctl", "play", "--keep", "--config", SETTINGS, user="svc")
    assert "all went well" in output


def test_the_units_of_the_deb_start_only_if_a_host_exists(system: System) -> None:
    units = sorted((system.root / "lib/systemd/system").glob("svc*"))
    assert [path.name for path in units] == [
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


# slow: apt unpacks the package once more, and compiles it
def test_reinstalling_and_removing_keep_settings_and_data(system: System, package: Path) -> None:
    folders = [system.root / "etc/svcserver", system.root / "var/lib/svcserver"]

    def contents() -> dict[str, bytes]:
        files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        return {str(path): path.read_bytes() for path in files}

    before = contents()
    assert f"{folders[1]}/svc.db" in before
    system.run("apt-get", "install", "-y", "-q", "--reinstall", system.copy(package))
    assert contents() == before
    system.run("apt-get", "purge", "-y", "-q", "svcserver")
    assert contents() == before
    assert not (system.root / "usr/lib/svcserver").exists()
