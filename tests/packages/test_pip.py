"""The wheel and the sdist: installed by pip and pipx, and an upgrade of a host from 0.1.0."""

import re
import shutil
import tarfile
import zipfile
from importlib.metadata import distributions
from pathlib import Path

import pytest

from svcserver.kernel.settings import parse_env_file
from tests.packages.pages import block
from tests.packages.support import EARLIER, STACK_IS_READY, System, clean_system, run

pytestmark = pytest.mark.packages

PUBLIC = ("--public-host", "127.0.0.1:8443", "--owner", "Olga")
PAGE = "packages.md"
NEWER = "svcserver-NEW-"
PINS = "svcserver-*-constraints.txt"


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> System:
    return clean_system(tmp_path_factory.mktemp("system"), "python3-venv", "pipx", "adduser")


def test_the_sdist_contains_exactly_the_tracked_files(release: Path) -> None:
    [made] = release.glob("svcserver-*.tar.gz")
    with tarfile.open(made) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    tracked = set(filter(None, run("git", "ls-files").split("\n")))
    assert tracked - names == set()
    added = {member for member in names - tracked if not member.startswith("svcserver.egg-info/")}
    assert added == {"PKG-INFO"}


def test_the_wheel_carries_every_file_of_the_program_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tracked = set(run("git", "ls-files", "svcserver", "twisted").split())
    assert tracked - names == set()
    added = {
        path
        for path in names - tracked
        if not re.match(r"svcserver-[^/]*\.(dist-info|data)/", path)
    }
    assert added == set()


# slow: an installation of everything and an evening on a whole host
def test_pip_installs_a_version_that_plays_after_svcctl_up(system: System, wheel: Path) -> None:
    """A new user runs the page's commands, then logs in again to the machine."""
    first = new_user(system, "petra", wheel)
    system.run("bash", "-c", block(PAGE, "apt-get install -y python3-venv"))
    system.run(*first, block(PAGE, "-m venv ~/svcserver"))
    assert other_versions(system.root / "home/petra/svcserver", wheel) == set()
    plays_signed_in(system, first)


# slow: two installations of everything and an evening on a whole host
def test_pipx_installs_a_version_that_plays_after_svcctl_up(system: System, wheel: Path) -> None:
    """A new user runs the page's commands, and later its commands for upgrades."""
    first = new_user(system, "piet", wheel)
    system.run("bash", "-c", block(PAGE, "apt-get install -y pipx"))
    system.run(*first, block(PAGE, "pipx ensurepath"))
    plays_signed_in(system, first)
    again = block(
        "upgrade.md", "pipx install --force", {NEWER: f"svcserver-{wheel.name.split('-')[1]}-"}
    )
    system.run(*first, again)
    assert other_versions(system.root / "home/piet/.local/pipx/venvs/svcserver", wheel) == set()
    assert f"version {wheel.name.split('-')[1]}\n" in system.run(*first, "svcctl --version")


def new_user(system: System, name: str, wheel: Path) -> tuple[str, ...]:
    """Return a function that runs commands as a new user who has just logged in."""
    system.run("useradd", "--create-home", "--shell", "/bin/bash", name)
    [pins] = wheel.parent.glob(PINS)
    for path in (wheel, pins):
        shutil.copy(path, system.root / "home" / name)
    who = ("setpriv", f"--reuid={name}", f"--regid={name}", "--init-groups")
    home = f"/home/{name}"
    return (*who, "env", "-C", home, f"HOME={home}", f"USER={name}", "bash", "-elc")


def other_versions(environment: Path, wheel: Path) -> set[str]:
    """Return the packages whose version differs from the release's constraints."""
    [pins], [packages] = wheel.parent.glob(PINS), environment.glob("lib/python3*/site-packages")
    differing = {
        re.sub("[-_.]+", "-", distribution.name).lower(): distribution.version
        for distribution in distributions(path=[str(packages)])
    }
    wanted = dict(line.split("==") for line in pins.read_text().split())
    # not all packages, because pipx shares its own
    assert len(differing.keys() & wanted.keys()) > 40
    return {name for name, version in wanted.items() if differing.get(name, version) != version}


def plays_signed_in(system: System, first: tuple[str, ...]) -> None:
    """Run the page's ``svcctl up`` in the user's shell, and play on the host that it creates."""
    answers = f"--yes {' '.join(PUBLIC)}"
    up = block(PAGE, "svcctl up ~/game", {"svcctl up ~/game": f"exec svcctl up ~/game {answers}"})
    with system.alone() as alone, alone.running(*first, up, user="root", until="Ctrl-C stops it"):
        assert "all went well" in alone.run(*first, "svcctl play --config ~/game")


# slow: a Debian, an installation of everything and an evening on a whole host
def test_pip_installs_the_sdist_with_its_pinned_dependencies(system: System, release: Path) -> None:
    """The dependencies are installed first, as a Linux distribution does; then only the sdist."""
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
    """Return the program's files in a virtual environment, except compiled files."""
    [packages] = environment.glob("lib/python3*/site-packages")
    files = [*packages.glob("svcserver/**/*"), packages / "twisted/plugins/svcserver_plugins.py"]
    return {
        str(path.relative_to(packages))
        for path in files
        if path.is_file() and "__pycache__" not in path.parts
    }


def plays(system: System, svcctl: str, folder: str) -> None:
    """Run ``svcctl up``, and a scripted session on the new host."""
    with system.alone() as alone:
        up = (svcctl, "up", folder, "--yes", *PUBLIC)
        with alone.running(*up, user="root", until="Ctrl-C stops it"):
            assert "all went well" in alone.run(svcctl, "play", "--config", folder)


# slow: two installations of everything and two evenings on a whole host
def test_a_full_host_of_the_first_release_is_upgraded(system: System, wheel: Path) -> None:
    svcctl, folder = "/opt/upgraded/bin/svcctl", "/srv/upgraded"
    system.run("python3", "-m", "venv", "/opt/upgraded")
    system.run("/opt/upgraded/bin/pip", "install", "-q", system.copy(EARLIER))
    system.run(svcctl, "init", folder, "--public-host", "127.0.0.1", "--owner", "Olga")
    gateway = system.root / "srv/upgraded/gateway.env"
    gateway.write_text(gateway.read_text().replace("GATEWAY_PORT=443", "GATEWAY_PORT=8443"))
    system.run(svcctl, "init", "/srv/private", "--private-host", "127.0.0.1", "--owner", "Olga")
    stack = ("/opt/upgraded/bin/twistd", "--nodaemon", "--pidfile=", "svc-stack", "-c", folder)
    with system.alone() as alone:
        with alone.running(*stack, user="root", until=STACK_IS_READY):
            assert "all went well" in alone.run(svcctl, "play", "--config", folder)
        before = alone.run(svcctl, "account", "list", "--config", folder)
        system.run("/opt/upgraded/bin/pip", "install", "-q", system.copy(wheel))
        public, private = (upgraded(system, place) for place in ("srv/upgraded", "srv/private"))
        with alone.running(*stack, user="root", until=STACK_IS_READY):
            after = alone.run(svcctl, "account", "list", "--config", folder)
            assert "all went well" in alone.run(svcctl, "play", "--config", folder)
    names = [line.split()[0] for line in before.splitlines() if line]
    assert len(names) > 4
    assert all(name in after for name in names)
    assert public["content"]["GATEWAY_SECRET"] == public["gateway"]["GATEWAY_SECRET"]
    assert public["metagame"]["ALLOWLIST_SECRET"] == public["gateway"]["ALLOWLIST_SECRET"]
    assert public["allowlist"]["METRICS_PORT"] == "61024"
    assert set(private) == {"metagame", "deploy", "content"}
    assert not {"GATEWAY_SECRET", "ALLOWLIST_SECRET"} & {*private["content"], *private["metagame"]}
    for settings in (public, private):
        assert settings["deploy"]["GAMESERVER_LAUNCH_KEYS"] == "1"
        assert settings["metagame"]["METRICS_PORT"] == "61020"


def upgraded(system: System, folder: str) -> dict[str, dict[str, str]]:
    """Return the settings of a host of 0.1.0 after its owner has run the page's upgrade commands.

    The commands run twice, and the second run must change nothing.
    """
    lines = block("upgrade.md", "GAMESERVER_LAUNCH_KEYS=1", {"~/game": f"/{folder}"})
    made = []
    for _ in range(2):
        system.run("bash", "-c", lines)
        files = sorted((system.root / folder).glob("*.env"))
        made.append({path.stem: path.read_text() for path in files})
    assert made[0] == made[1]
    return {name: parse_env_file(text) for name, text in made[0].items()}
