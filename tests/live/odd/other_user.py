"""Helpers for tests of a host that a non-root user owns."""

import atexit
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.requirements import skip

UID = GID = 64_321  # a number without a name
ROOT = Path(__file__).parents[3]
PATIENCE_S = 240
if os.name != "posix" or os.geteuid() != 0:  # each test file that needs root is skipped as a whole
    raise skip("root", "only root acts for another user")
_OF_DEVELOPERS = shutil.ignore_patterns("playwright", "babel", "sphinx*", "mypy", "*__mypyc*")
_PROGRAMS = ("svcctl", "twistd", "svc-gameserver-sim")


def programs(folder: Path) -> Path:
    """Return a folder with copies of our programs that every user can run.

    Skip the test without root. Copies are needed because the interpreter of this test run can be
    inside root's home, where other users cannot run it.
    """
    python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    if not os.path.exists(python):
        raise skip("root", f"{python} is not installed, which every user may run")
    made = folder / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", made], check=True, timeout=60)
    site = next(made.glob("lib/python*/site-packages"))
    places = _readable()
    site.joinpath("all.pth").write_text(
        "".join(f"import site; site.addsitedir({place!r})\n" for place in places)
    )
    for name in _PROGRAMS:
        text = Path(sys.executable).with_name(name).read_text().split("\n", 1)[1]
        made.joinpath("bin", name).write_text(f"#!{made}/bin/python\n{text}")
        made.joinpath("bin", name).chmod(0o755)
    return made / "bin"


@cache
def _readable() -> list[str]:
    """Return the folders of our modules, or of copies if other users cannot read this clone."""
    site = sysconfig.get_path("purelib")
    if all(folder.stat().st_mode & 0o1 for folder in (ROOT, *ROOT.parents)):
        return [site, str(ROOT)]
    holder = TemporaryDirectory(prefix="svc-odd-modules-")
    atexit.register(holder.cleanup)
    copy = Path(holder.name)
    copy.chmod(0o755)
    shutil.copytree(site, copy / "site", ignore=_OF_DEVELOPERS)
    for name in ("svcserver", "twisted"):
        shutil.copytree(ROOT / name, copy / "root" / name)
    return [str(copy / "root"), str(copy / "site")]  # the first folder has priority


def run(
    command: Sequence[object], cwd: Path, *, uid: int = 0, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program as root or as another user."""
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        user=uid or None,
        group=uid or None,
        extra_groups=[] if uid else None,
    )


def give_away(folder: Path) -> None:
    """Change the owner of the folder and its contents to the other user."""
    for path in (folder, *folder.rglob("*")):
        os.lchown(path, UID, GID)


def of_root(folder: Path) -> list[str]:
    """Return the files in the folder that do not belong to the other user."""
    result = (folder, *folder.rglob("*"))
    return sorted(str(path) for path in result if path.lstat().st_uid != UID)


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a folder that every user may enter, unlike pytest's own folders."""
    with TemporaryDirectory(prefix="svc-odd-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def bin_folder(place: Path) -> Path:
    """Return the folder with copies of our programs, made by ``programs``."""
    return programs(place)
