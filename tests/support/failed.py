"""What failed in any part of ``make test``, which shows it in the end: as commands, one a line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import shared

FILE = "SVC_TEST_FAILED"  # the Makefile's name for the file that all parts add to


def tell(stats: Mapping[str, Sequence[Any]]) -> None:
    """Add those of pytest's reports. A run that a test has begun tells nobody."""
    file = os.environ.get(FILE)
    if file is None or shared.begun_by() != os.getpid():
        return
    names = {one.nodeid: None for how in ("failed", "error") for one in stats.get(how, ())}
    with Path(file).open("a") as told:
        told.writelines(f".venv/bin/python -m pytest {shlex.quote(name)}\n" for name in names)
