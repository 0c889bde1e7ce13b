"""The file that ``make launcher`` builds, run with a Python that has no other packages.

Real processes are needed because the file must run in an interpreter without this checkout.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.ctl.hosts import run
from tests.launcher.around import invite_text
from tests.live.players_host import COMMAND, invite, players_host, running
from tests.live.players_terminal import Player
from tests.live.real_browser import browser
from tests.support.processes import eventually
from tests.support.registries import loaded

__all__ = ["browser"]  # a fixture

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
PACKING = ROOT / "packaging" / "launcher"
PATIENCE_S = 600
AS_ON_WINDOWS = """
import builtins, importlib, keyring, pkgutil, sys
import OpenSSL, twisted.application.service, twisted.internet.reactor, twisted.internet.ssl

MISSING = {"crypt", "curses", "fcntl", "grp", "nis", "ossaudiodev", "posix", "pty", "pwd",
           "readline", "resource", "spwd", "syslog", "termios", "tty"}
given = builtins.__import__

def on_windows(name, globals=None, *rest, **more):
    who = (globals or {}).get("__name__", "")
    if who.startswith("svcserver") and name.partition(".")[0] in MISSING:
        raise ModuleNotFoundError(f"{who} imports {name}")
    return given(name, globals, *rest, **more)

builtins.__import__, sys.platform = on_windows, "win32"
count = 0
for package_name in ("kernel", "http", "edge", "relay", "launcher"):
    package = importlib.import_module(f"svcserver.{package_name}")
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(found.name)
        count += 1
from svcserver.launcher.main import arguments
print(count, arguments(["--no-browser"]).no_browser)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    dist = tmp_path_factory.mktemp("dist")
    command = [sys.executable, str(ROOT / "packaging" / "launcher.py"), str(dist)]
    ran = loaded(command, PATIENCE_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [wheel] = dist.glob("svc_launcher-*.whl")
    yield wheel, dist / "svc-launcher.pyz"


def clean(tmp_path: Path) -> dict[str, str]:
    home = str(tmp_path / "home")
    path = os.environ["PATH"]
    return {"PATH": path, "HOME": home, "SVC_LAUNCHER_HOME": home, "SHIV_ROOT": home}


# slow: the first of its file, for which both packages are built, for four Pythons
def test_the_wheel_contains_only_the_packages_of_the_launcher(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as packed:
        names = packed.namelist()
    packages = {
        name.split("/")[1] for name in names if name.count("/") > 1 and name[:10] == "svcserver/"
    }
    assert packages == {"kernel", "http", "edge", "relay", "launcher"}
    for wanted in ("launcher/static/main.js", "edge/data/words.json", "py.typed"):
        assert f"svcserver/{wanted}" in names
    assert not [name for name in names if name.startswith("twisted/")]


def test_no_packed_module_imports_a_missing_module(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as packed:
        modules = [entry for entry in packed.namelist() if entry.endswith(".py")]
        for module in modules:
            text = packed.read(module).decode()
            for result in re.findall(r"^\s*from (svcserver\.[\w.]+) import", text, re.MULTILINE):
                path = result.replace(".", "/")
                assert {f"{path}.py", f"{path}/__init__.py"} & set(modules), (module, result)


def test_the_file_holds_binaries_for_each_python_and_system(
    built: tuple[Path, Path],
) -> None:
    """An earlier file did not run on Windows, or with a Python newer than that of the build."""
    with zipfile.ZipFile(built[1]) as packed:
        names = {entry.removeprefix("site-packages/") for entry in packed.namelist()}
    for library in (
        "_cffi_backend",
        "httptools/parser/parser",
        "httptools/parser/url_parser",
        "orjson/orjson",
    ):
        for python in ("311", "312", "313", "314"):
            assert f"{library}.cpython-{python}-x86_64-linux-gnu.so" in names
            assert f"{library}.cp{python}-win_amd64.pyd" in names
    assert {f"cryptography/hazmat/bindings/_rust.{entry}" for entry in ("abi3.so", "pyd")} <= names
    assert "win32ctypes/core/__init__.py" in names  # the key store of Windows


def test_the_packed_file_names_no_folder_of_its_build(built: tuple[Path, Path]) -> None:
    """The same commit must give the same file in any folder."""
    folders = [str(entry).encode() for entry in (ROOT, sys.prefix, built[1].parent)]
    with zipfile.ZipFile(built[1]) as packed:
        naming = [
            entry
            for entry in packed.namelist()
            if any(folder in packed.read(entry) for folder in folders)
        ]
    assert naming == []


def test_every_module_is_imported_without_posix_modules(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    """``sys.platform`` is win32, and modules that exist only on POSIX are missing."""
    site = tmp_path / "site"
    with zipfile.ZipFile(built[0]) as packed:
        packed.extractall(site)
        count = sum(entry.endswith(".py") for entry in packed.namelist())
    ran = subprocess.run(
        [sys.executable, "-c", AS_ON_WINDOWS],
        env={**clean(tmp_path), "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    imported, parsed = ran.stdout.split()
    assert int(imported) >= count - 10 > 50  # all but the packages' own __init__
    assert parsed == "True"


def plain_python(folder: Path) -> str:
    """Return a Python without installed packages."""
    made = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(made, check=True, timeout=300)
    return str(folder / "bin" / "python")


def by_wheel(wheel: Path, folder: Path) -> str:
    """Install the wheel into a new environment, as ``pipx install`` does, and return its program.

    The dependencies come in their pinned versions. ``pip check`` fails if a dependency is missing.
    """
    python = plain_python(folder)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    lock = ROOT / "requirements" / "launcher.lock"
    for words in (
        ("install", "-q", "--no-compile", "--require-hashes", "-r", lock),
        ("install", "-q", "--no-deps", wheel),
        ("check",),
    ):
        ran = loaded([*pip, *words], PATIENCE_S)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    return str(folder / "bin" / "svc-launcher")


def play_in_the_terminal(player: Player, join: str, name: str) -> None:
    """Play from the invite to the end of the game, using the commands that the launcher names."""
    player.say(join)
    player.hears("Type agree to continue.")
    player.say("agree")
    player.hears("choose a name")
    player.say("name no good")
    player.hears("A name has 3 to 16 letters")
    player.say(f"name {name}")
    player.hears("must be downloaded. Type get.")
    player.say(f"set runner {sys.executable}")
    player.say(f"set command {COMMAND}")
    player.hears("played.json")
    player.say("get")
    player.hears("the game is ready. Type play.")
    player.say("play")
    player.hears(f"you are playing as {name}.")
    [game] = (player.home / "games").iterdir()
    eventually((game / "played.json").exists)
    player.say("news")
    player.hears("Hunt on Friday")
    player.say("hunter")
    player.hears(f"{name} is new here.")
    player.say("stop")
    player.hears("Type play")
    player.say("quit")
    player.end()
    assert player.process.returncode == 0
    [key] = json.loads((player.home / "state" / "keys.json").read_text()).values()
    assert key not in "".join(player.history)


# slow: an environment made, installed into, and played from
def test_the_single_file_and_the_wheel_play_in_a_clean_python(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    wheel, bundle = built
    host = players_host(tmp_path / "host", "Friday Hunts")
    commands = {
        "one_file": [plain_python(tmp_path / "plain"), str(bundle)],
        "by_wheel": [by_wheel(wheel, tmp_path / "installed")],
    }
    with running(host):
        for name, command in commands.items():
            home = tmp_path / name
            home.mkdir()
            player = Player(home, command, {"SHIV_ROOT": str(home / "shiv")})
            try:
                play_in_the_terminal(player, invite(host), name.title())
            finally:
                player.process.kill()


def test_menu_entry_works_after_the_downloaded_file_is_deleted(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    """A file manager runs the file; a desktop runs the ``Exec`` line of the entry."""
    home, opened = tmp_path / "home", tmp_path / "opened"
    home.mkdir()
    download = tmp_path / "svc-launcher.pyz"
    download.write_bytes(built[1].read_bytes())
    download.chmod(0o755)
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    path = f"{Path(plain_python(tmp_path / 'plain')).parent}:{os.environ['PATH']}"
    environ = {**clean(tmp_path), "PATH": path, "BROWSER": str(browser)}
    entry = home / "applications" / "svc-launcher.desktop"

    def links() -> int:
        return len(opened.read_text().splitlines()) if opened.exists() else 0

    def starts(command: Sequence[str], count: int) -> subprocess.Popen[bytes]:
        begun = subprocess.Popen(command, env=environ, cwd=tmp_path, stdin=subprocess.DEVNULL)
        try:
            eventually(lambda: links() == count, PATIENCE_S)
        except BaseException:
            begun.kill()
            raise
        return begun

    def entry_command() -> list[str]:
        [line] = re.findall(r"^Exec=(.*)$", entry.read_text(), re.MULTILINE)
        return ["sh", "-c", "exec " + line.replace("%u", '"$0"'), invite_text()]

    with starts([str(download)], 1) as running:
        eventually(entry.exists)
        eventually(lambda: (home / "icons/hicolor/scalable/apps/svc-launcher.svg").exists())
        download.unlink()
        assert starts(entry_command(), 2).wait(PATIENCE_S) == 0  # passed on to the running launcher
        hosts = home / "state" / "hosts.json"
        assert json.loads(hosts.read_text())["hosts"][0]["name"] == "Friday Hunts"
        running.terminate()
    with starts(entry_command(), 3) as running:
        running.terminate()
    copy = home / "program" / "svc-launcher.pyz"
    removed = subprocess.run([copy, "remove"], env=environ, check=False, timeout=PATIENCE_S)
    assert (removed.returncode, entry.exists(), copy.exists()) == (0, False, False)


# slow: a stack, and the one file unpacked
def test_the_launcher_from_a_hosts_page_starts_with_its_version(
    built: tuple[Path, Path], browser: Browser, tmp_path: Path
) -> None:
    """A friend downloads the launcher from the host's page, compares the checksum and starts it."""
    host = players_host(tmp_path / "host", "Friday Hunts")
    put = run("content", "launcher", built[1], "--json", "--config", host)
    assert put.returncode == 0, put.stderr
    sha256 = json.loads(put.stdout)["sha256"]
    made = run("invite", "create", "--json", "--config", host)
    [first, *_] = json.loads(made.stdout)["letter"]
    [page_address] = re.findall(r"https://\S+/join", first)
    assert f"(its SHA-256 is {sha256})" in first
    with running(host):
        page = browser.new_context(ignore_https_errors=True, accept_downloads=True).new_page()
        link = page.get_by_role("link", name="from this host")
        eventually(lambda: (page.goto(page_address), link.count())[1])  # it asks now and then
        with page.expect_download() as coming:
            link.click()
        got = tmp_path / coming.value.suggested_filename
        coming.value.save_as(got)
        page.get_by_role("link", name="in this list").click()
        [listed] = json.loads(page.locator("body").inner_text())["files"]
        page.context.close()
    assert (got.name, listed["sha256"]) == ("svc-launcher.pyz", sha256)
    assert hashlib.sha256(got.read_bytes()).hexdigest() == sha256
    says = subprocess.run(
        [plain_python(tmp_path / "plain"), str(got), "--version"],
        env={**clean(tmp_path), "SHIV_ROOT": str(tmp_path / "shiv")},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (says.returncode, says.stdout.strip()) == (0, f"svc-launcher {version('svcserver')}")


def test_the_launcher_needs_no_dependency_that_the_server_lacks() -> None:
    def names(path: Path) -> set[str]:
        result = re.findall(r'^    "([a-z-]+)(?:\[[a-z]+\])?>=', path.read_text(), re.MULTILINE)
        return set(result)

    assert names(PACKING / "pyproject.toml") <= names(ROOT / "pyproject.toml")
