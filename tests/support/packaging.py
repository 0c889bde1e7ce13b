"""The scripts in ``packaging/``, loaded as modules because the folder is not a package."""

import importlib
import sys
from pathlib import Path
from typing import Any
from unittest import mock

PACKAGING = Path(__file__).parents[2] / "packaging"


def recipe(script: str) -> Any:
    """Return the module of a script such as ``deb.py``."""
    [module] = recipes(script)
    return module


def recipes(*scripts: str) -> list[Any]:
    """Import scripts that import one another, and return the modules.

    The modules are removed from ``sys.modules`` afterwards, so that no other code imports them.
    """
    try:
        with mock.patch.object(sys, "path", [str(PACKAGING), *sys.path]):
            return [importlib.import_module(Path(script).stem) for script in scripts]
    finally:
        for script in PACKAGING.glob("*.py"):  # the scripts import modules with such plain names
            sys.modules.pop(script.stem, None)
