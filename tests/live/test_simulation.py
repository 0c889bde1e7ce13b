"""The same simulation in two processes.

Why processes: equal hashes in two interpreters are the point.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parents[2]


def in_a_process(hash_seed: str, *words: str) -> dict[str, object]:
    """``svcctl simulate --json`` with this PYTHONHASHSEED."""
    done = subprocess.run(
        [sys.executable, "-m", "svcserver.ctl.main", "simulate", "--json", *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        timeout=300,
        check=False,
    )
    said: dict[str, object] = json.loads(done.stdout)
    return said


class ProcessTests(SynchronousTestCase):
    def test_equal_seeds_give_equal_bytes_in_two_processes(self) -> None:
        words = ("--days", "0.003", "--players", "5", "--seed", "11", "--faults")
        one, other = (in_a_process(number, *words) for number in ("1", "4711"))
        self.assertEqual(one["hash"], other["hash"])
        self.assertEqual((one["violations"], one["seed"]), (0, 11))
