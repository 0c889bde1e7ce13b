"""The metagame's tests once more, on PostgreSQL, in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

TEST = "test_every_feature_test_holds_on_postgresql"
ROOT = Path(__file__).parents[2]
TIMEOUT_S = 1800  # two minutes where nothing else runs
COMMAND = ("-m", "pytest", "tests/metagame", "-p", "no:cacheprovider", "--import-mode=importlib")


class Run:
    """Runs from the beginning; ``result`` waits for it."""

    def __init__(self) -> None:
        self._out = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the run
        self._process = subprocess.Popen(
            [sys.executable, *COMMAND],
            cwd=ROOT,
            env={**os.environ, "SVC_TEST_DATABASE": "postgresql"},
            stdout=self._out,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def result(self) -> tuple[int, str]:
        """Exit status and output."""
        status = self._process.wait(TIMEOUT_S)
        self._out.seek(0)
        return status, self._out.read()

    def end(self) -> None:
        """Let no run outlive the session; it ends its database as it would after a Ctrl-C."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
        self._out.close()
