"""Every feature on PostgreSQL: the tests of the metagame once more, on a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgres import fresh_database

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 1800  # a minute and a half where nothing else runs


def test_every_feature_test_holds_on_postgresql() -> None:
    fresh_database()  # skips where there is no PostgreSQL, and counts as required
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "tests/metagame",
            "-p",
            "no:cacheprovider",
            "--import-mode=importlib",
        ],
        cwd=ROOT,
        env={**os.environ, "SVC_TEST_DATABASE": "postgresql"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    verdict = done.stdout.splitlines()[-1]
    assert done.returncode == 0, done.stdout[-8000:]
    assert re.search(r"\b[1-9]\d{2,} passed", verdict) and "skipped" not in verdict, verdict
