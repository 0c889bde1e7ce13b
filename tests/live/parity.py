"""A second run of the metagame's tests in a separate process, on PostgreSQL.

The process loads this module as a plugin. Some tests would do the same in both runs. The plugin
leaves out each file whose tests use no database or always SQLite, and the comparison of two HTTP
servers on the same database. ``PLUGINS`` leaves out live tests, which create their PostgreSQL
databases themselves.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 1800  # two minutes are usual if nothing else runs
PLUGINS = ("-p", __name__, "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not live")
# no other module starts the PostgreSQL server
GIVES_DATABASES = ROOT / "tests" / "support" / "postgres.py"
METAGAME = ROOT / "tests" / "metagame"
SAME = {  # these files import it, but the kind of database makes no difference
    METAGAME / "access" / "test_tokens.py",  # no database
    METAGAME / "test_settings.py",  # no database
    METAGAME / "test_database.py",  # files of SQLite
    METAGAME / "test_service.py",  # a file of SQLite
    METAGAME / "test_klein_site.py",  # compares two HTTP servers on the same database
}


def run() -> tuple[int, str]:
    """Run pytest and return the exit status and output; Ctrl-C also ends the database."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "tests/metagame", *PLUGINS],
            cwd=ROOT,
            env={**os.environ, "SVC_TEST_DATABASE": "postgresql"},
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            status = process.wait(TIMEOUT_S)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(60)
        out.seek(0)
        return status, out.read()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Ignore a test file for which the kind of database makes no difference.

    Such a file does not import ``GIVES_DATABASES``, directly or indirectly, or it is in ``SAME``.
    """
    if not collection_path.match("test_*.py"):
        return None
    if collection_path in SAME:
        return True
    return None if GIVES_DATABASES in reached(collection_path) else True


def reached(file: Path) -> set[Path]:
    """Return this file and the files of ``tests`` that it imports, directly or indirectly."""
    result, waiting = {file}, [file]
    while waiting:
        new = _imported(waiting.pop()) - result
        result |= new
        waiting += new
    return result


@cache
def _imported(file: Path) -> frozenset[Path]:
    """Return the files of ``tests`` that this file imports or names as a module."""
    text = file.read_text()
    named = set(re.findall(r"\btests(?:\.\w+)+", text))
    for package, names in re.findall(r"from (tests[\w.]*) import (\([^)]*\)|.*)", text):
        named |= {f"{package}.{entry}" for entry in re.findall(r"\w+", names)}
    assert not re.search(r"^\s*from \.", text, re.MULTILINE), f"{file} imports by a relative name"
    files = (ROOT.joinpath(*entry.split(".")).with_suffix(".py") for entry in named)
    return frozenset(entry for entry in files if entry.exists())
