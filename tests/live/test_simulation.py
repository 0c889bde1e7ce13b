"""The same simulation in several processes and with another Python version.

Real processes are needed because the tests compare hashes from two interpreters.
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.other_python import INTERPRETER, version_of
from tests.simulation.hashes import WORLDS
from tests.support import requirements

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]


@cache
def hashes(python: str, hash_seed: str) -> list[str]:
    """Return the hashes of a simulation of each kind, run with ``python`` and ``hash_seed``."""
    done = subprocess.run(
        [python, "-m", "tests.simulation.hashes"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr[-2000:])
    return done.stdout.splitlines()


class ProcessTests(SynchronousTestCase):
    # slow: a run in each of two processes that import everything
    def test_equal_seeds_give_equal_bytes_in_two_processes(self) -> None:
        first, second = (hashes(sys.executable, number) for number in ("1", "4711"))
        self.assertEqual(first, second)
        self.assertEqual([line.split()[1] for line in first], ["0"] * len(WORLDS))

    if INTERPRETER.exists() or requirements.required(
        "another-python"
    ):  # `make other-python` makes it
        # slow: a run with each of two Pythons, which import everything
        def test_equal_seeds_give_equal_bytes_with_another_python(self) -> None:
            self.assertNotEqual(version_of(str(INTERPRETER)), version_of(sys.executable))
            self.assertEqual(hashes(str(INTERPRETER), "1"), hashes(sys.executable, "4711"))
