"""The metagame's tests once more, on PostgreSQL, in a process of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 1800  # two minutes where nothing else runs
COMMAND = ("-m", "pytest", "tests/metagame", "-p", "no:cacheprovider", "-p", "no:xdist")


def run() -> tuple[int, str]:
    """Exit status and output; a Ctrl-C ends it as well, and then it ends its database."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            [sys.executable, *COMMAND],
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
