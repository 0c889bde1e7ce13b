"""Builds the Debian package: the project with its pinned dependencies, for this Debian release.

    python packaging/deb.py [DIST]

Needs debhelper and Debian's own python3, for which the packed dependencies are chosen. Two builds
of the same commit, or two builds with the same SOURCE_DATE_EPOCH, are identical byte for byte.
"""

import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from building import ROOT, copied, epoch, need, run, target, version, wheel
from licenses import paragraphs

from svcserver.ctl import units

PYTHON = Path("/usr/bin/python3")
HOME = Path("/usr/lib/svcserver")
PROGRAMS = ("twistd", "svcctl", "svc-gameserver-sim")
SETTINGS, DATA = Path("/etc/svcserver"), Path("/var/lib/svcserver")


def main() -> None:
    """Build the package, and print its path."""
    need("dpkg-buildpackage", "dh")
    dist = target()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder, "svcserver")
        source = copied(Path(folder, "source"))
        shutil.copytree(source / "packaging" / "deb" / "debian", work / "debian")
        home = work / "usr" / "lib" / "svcserver"
        install(work, home)
        write_copyright(work / "debian" / "copyright", home)
        settle(home)
        lay_out_shared(home, work)
        shutil.copy(source / "CHANGELOG.md", work / "usr" / "share" / "doc" / "svcserver")
        write_units(work / "lib" / "systemd" / "system")
        write_changelog(work / "debian" / "changelog")
        settle_times(work)
        run("dpkg-buildpackage", "-b", "-us", "-uc", "-d", cwd=work, **versions())
        [made] = Path(folder).glob("svcserver_*.deb")
        shutil.copy(made, dist)
    print(dist / made.name)


def install(work: Path, home: Path) -> None:
    """Install the program in ``home``, as a virtual environment of Debian's Python."""
    run(PYTHON, "-m", "venv", "--without-pip", "--symlinks", home)
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python")
    quiet = ("install", "-q", "--no-compile", "--disable-pip-version-check")
    lock = ROOT / "requirements" / "run.lock"
    # pip imports the installed attrs; bytecode compiled then would contain this folder's path
    never = {"PYTHONDONTWRITEBYTECODE": "1"}
    run(*pip, *quiet, "--require-hashes", "--only-binary", ":all:", "-r", lock, **never)
    run(*pip, *quiet, "--no-deps", wheel(work / "wheel"), **never)


def write_copyright(path: Path, home: Path) -> None:
    """Append the copyright of each packed dependency to the project's copyright file."""
    [packages] = home.glob("lib/python3*/site-packages")
    with path.open("a", encoding="utf-8") as out:
        out.write(paragraphs(packages, HOME / packages.relative_to(home)))


def settle(home: Path) -> None:
    """Make the programs use the path ``HOME``, and remove files that are not needed.

    The programs name the build folder, because pip installed them there.
    """
    for path in (home / "bin").iterdir():
        if path.name in PROGRAMS:
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace(str(home), str(HOME)), encoding="utf-8")
        elif not path.is_symlink():
            path.unlink()
    shutil.rmtree(home / "include", ignore_errors=True)
    for leftover in (*home.rglob(".gitignore"), *home.rglob("flatc")):
        leftover.unlink()
    for module in home.rglob("*.py"):
        module.chmod(0o644)
    for package in home.glob("lib/python3*/site-packages/*.dist-info"):
        for name in ("direct_url.json", "RECORD"):  # they name the folder of the build
            Path(package, name).unlink(missing_ok=True)
    config = home / "pyvenv.cfg"
    lines = [line for line in config.read_text().splitlines() if not line.startswith("command")]
    config.write_text("\n".join(lines) + "\n")


def lay_out_shared(home: Path, work: Path) -> None:
    """Move the Grafana dashboard and the owner's pages to their folders under /usr/share."""
    shared = work / "usr" / "share"
    for name in ("svcserver", "doc/svcserver"):
        shutil.copytree(home / "share" / name, shared / name)
    shutil.rmtree(home / "share")  # the rest are the pages of programs that are not packed


def settle_times(work: Path) -> None:
    """Set the time of all files to the build's time; dpkg would keep the times of the checkout."""
    moment = epoch()
    for path in work.rglob("*"):
        os.utime(path, (moment, moment), follow_symlinks=False)


def write_units(folder: Path) -> None:
    """Write the systemd units of ``svcctl init``, with the paths of this package.

    systemd skips a service that has no settings yet, so the units can be enabled beforehand.
    """
    folder.mkdir(parents=True)
    place = units.UnitPaths(SETTINGS, HOME / "bin" / "twistd", PYTHON, DATA)
    made = units.files(place)
    needs = {units.unit(name): name for name in units.SERVICES}
    for file in (*needs, *units.KEEPERS):
        settings = f"ConditionPathExists={SETTINGS}/{needs.get(file, 'metagame')}.env\n"
        text = made[file].replace("PartOf=", f"{settings}PartOf=", 1)
        text = text.replace("Written by svcctl init; change", "Change")
        Path(folder, file).write_text(text, encoding="utf-8")
    Path(folder, units.TARGET).write_text(made[units.TARGET], encoding="utf-8")


def write_changelog(path: Path) -> None:
    """Write the package's changelog, with its version and build time."""
    path.write_text(
        f"svcserver ({version()}) unstable; urgency=medium\n\n"
        "  * For the changes, see CHANGELOG.md beside this file.\n\n"
        " -- The svcserver engineers <svcserver@example.org>  "
        f"{format_datetime(datetime.fromtimestamp(epoch(), UTC))}\n"
    )


def versions() -> dict[str, str]:
    """Return the Python version that the package needs, and the first version that is too new."""
    major, minor = run(PYTHON, "-c", "import sys; print(*sys.version_info[:2])").split()
    return {"PYTHON_VERSION": f"{major}.{minor}", "PYTHON_NEXT": f"{major}.{int(minor) + 1}"}


if __name__ == "__main__":
    main()
