"""Create ``.venv/other``: an owner's packages for another Python version of this machine.

    make other-python

``tests/live/test_simulation.py`` runs a simulation with both versions. If there is no other
sufficiently new Python, or the package registry cannot be reached, the program prints this and
creates nothing.
"""

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

from tests.support.registries import loaded

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv" / "other"
INTERPRETER = FOLDER / "bin" / "python"
LOCKS = ("build.lock", "run.lock")
OLDEST, NEWEST = 11, 14  # of Python 3
LONGEST_S = 900.0


def version_of(python: str) -> str:
    """Return a version such as ``3.13``, or "" if this Python cannot create environments."""
    request = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", request], capture_output=True, text=True, timeout=20, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def candidates() -> Iterator[str]:
    """Return the places where another Python may be installed."""
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    for minor in range(NEWEST, OLDEST - 1, -1):
        name = f"python3.{minor}"
        if result := shutil.which(name):
            yield result
        yield from sorted(glob.glob(f"{pyenv}/versions/3.{minor}.*/bin/{name}"))


def main() -> int:
    """Create the environment, as the module describes."""
    ours = "{}.{}".format(*sys.version_info[:2])
    if INTERPRETER.exists():
        return 0
    for python in candidates():
        version = version_of(python)
        if version and version != ours:
            return install(python, version)
    print(f"there is no other Python than {ours} here; what needs one is skipped")
    return 0


def install(python: str, version: str) -> int:
    """Create the environment; if the installation fails, remove the folder again."""
    print(
        f"installing the pinned dependencies for Python {version} into {FOLDER} (once)", flush=True
    )
    locks = [word for lock in LOCKS for word in ("-r", str(ROOT / "requirements" / lock))]
    pip = [str(INTERPRETER), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    made = subprocess.run([python, "-m", "venv", str(FOLDER)], check=False).returncode
    try:
        if not made:
            done = loaded([*pip, "--require-hashes", *locks], LONGEST_S)
            made = done.returncode
            print(done.stdout + done.stderr, end="")
    except SkipTest as out_of_reach:
        shutil.rmtree(FOLDER, ignore_errors=True)
        print(f"what needs another Python is skipped; {out_of_reach}")
        return 0
    if made:
        shutil.rmtree(FOLDER, ignore_errors=True)
        print(f"the dependencies cannot be installed for Python {version} here")
    return made


if __name__ == "__main__":
    sys.exit(main())
