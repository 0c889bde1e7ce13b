"""Functions that the build programs of this folder share.

Run a build program by its path, for example ``python packaging/deb.py``.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
OLDEST = 315_532_800  # 1980-01-01, the earliest time that the zip format can store


def version() -> str:
    """Return the version of the whole project."""
    match = re.search(r'(?m)^version = "(.*)"$', (ROOT / "pyproject.toml").read_text())
    if match is None:
        raise SystemExit("pyproject.toml has no version")
    return match[1]


def epoch() -> int:
    """Return the timestamp of all built files: SOURCE_DATE_EPOCH, or the last commit's time.

    In an unpacked sdist, the timestamp is that of its file ``PKG-INFO``.
    """
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    if fixed is not None:
        return int(fixed)
    if cloned():
        return int(git("log", "-1", "--format=%ct"))
    made = ROOT / "PKG-INFO"
    return max(OLDEST, int(made.stat().st_mtime)) if made.exists() else OLDEST


def cloned() -> bool:
    """Return whether this is a Git clone; in an additional work tree, ``.git`` is a file."""
    return (ROOT / ".git").exists()


def git(*words: str) -> str:
    """Return the output of a git command; exit with a one-line error message if it fails."""
    need("git")
    command = ["git", *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        why = (ran.stderr.splitlines() or [f"status {ran.returncode}"])[0]
        raise SystemExit(
            f"git {words[0]} failed in {ROOT}, and the build needs its output: {why}; "
            "repair the clone, or if another user owns it, run "
            f"git config --global --add safe.directory {ROOT}"
        )
    return ran.stdout


def need(*programs: str) -> None:
    """Exit with a one-line message that names the Debian packages of missing programs."""
    packages = {
        "git": "git",
        "dpkg-buildpackage": "dpkg-dev",
        "dh": "debhelper",
        "lintian": "lintian",
        "mmdebstrap": "mmdebstrap",
        "buildah": "buildah",
        "apt-get": "apt",
    }
    missing = [packages[program] for program in programs if shutil.which(program) is None]
    if missing:
        raise SystemExit(f"programs are missing: run apt-get install {' '.join(missing)}")


def run(*words: object, cwd: Path = ROOT, **environ: str) -> str:
    """Run a command with a fixed build time and return its output.

    If the command fails, exit with its output.
    """
    command = [str(word) for word in words]
    fixed = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch()), **environ}
    ran = subprocess.run(command, cwd=cwd, env=fixed, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{command[0]} has failed:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def wheel(folder: Path) -> Path:
    """Build the project's wheel in ``folder`` and return its path."""
    return built("wheel", folder, "svcserver-*.whl")


def built(kind: str, folder: Path, pattern: str) -> Path:
    """Build the project as a ``wheel`` or an ``sdist`` in ``folder`` and return its path."""
    with tempfile.TemporaryDirectory() as work:
        source = copied(Path(work, "source"))
        run(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "-o", folder, source)
    [made] = folder.glob(pattern)
    return made


def copied(folder: Path) -> Path:
    """Copy the project's tracked files into ``folder``; return the folder to build from.

    Untracked files must not be there, because setuptools would pack them: modules that were deleted
    but remain in an old ``build`` folder, and the built documentation. An unpacked sdist is used in
    place, without a copy.
    """
    if not cloned():
        return ROOT
    for name in filter(None, git("ls-files", "-z", "--cached").split("\0")):
        if not (ROOT / name).exists():  # removed, and not committed yet
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, path)
        path.chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)
    return folder


def target() -> Path:
    """Return the folder named on the command line, or ``dist``; create it if it is missing.

    This also sets the umask, so that the modes of files do not depend on the user.
    """
    os.umask(0o022)
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else DIST).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
