"""The scripts in ``packaging/``, which are no package: a test reads them as modules."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any
from unittest import mock

PACKAGING = Path(__file__).parents[2] / "packaging"


def recipe(script: str) -> Any:
    """The module of a script such as ``deb.py``."""
    [module] = recipes(script)
    return module


def recipes(*scripts: str) -> list[Any]:
    """New modules of these scripts, which import one another, and which nobody else finds."""
    try:
        with mock.patch.object(sys, "path", [str(PACKAGING), *sys.path]):
            return [importlib.import_module(Path(script).stem) for script in scripts]
    finally:
        for script in PACKAGING.glob("*.py"):  # as programs they have modules of such plain names
            sys.modules.pop(script.stem, None)
