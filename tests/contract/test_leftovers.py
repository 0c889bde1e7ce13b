"""A failed test that leaves a socket open is the only one that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
LEAVES_OPEN = """
import gc, socket
import pytest
from pytest_twisted import ensureDeferred
from twisted.trial.unittest import SynchronousTestCase

def leave_open():
    talker = socket.create_server(("127.0.0.1", 0))
    assert talker is None

def test_plain(): leave_open()

@ensureDeferred
async def test_with_a_reactor(): leave_open()

class Tests(SynchronousTestCase):
    def test_of_trial(self): leave_open()

@pytest.fixture
def before(): leave_open()

@pytest.fixture
def after():
    yield
    leave_open()

def test_with_what_comes_before(before): pass

def test_with_what_comes_after(after): pass

def test_next(): gc.collect()
"""


@pytest.mark.parametrize("with_it", [True, False])
def test_the_next_one_is_not_told_of_it(tmp_path: Path, with_it: bool) -> None:
    """Without the plugin it is: the sabotage."""
    (tmp_path / "test_it.py").write_text(LEAVES_OPEN)
    words = ["-q", "-W", "error", "-c", "/dev/null", "--rootdir", str(tmp_path)]
    plugin = ["-p", "tests.support.leftovers"] if with_it else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *plugin, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    failed = {
        one.partition(" - ")[0].rpartition("_")[2]
        for one in done.stdout.splitlines()
        if one.startswith(("FAILED ", "ERROR "))
    }
    assert failed - {"next"} == {"plain", "reactor", "trial", "before", "after"}, done.stdout
    assert ("next" in failed) != with_it, done.stdout
