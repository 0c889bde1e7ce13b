"""The scripts in ``packaging/``, which are no package: a test reads one as a module."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

PACKAGING = Path(__file__).parents[2] / "packaging"


def recipe(script: str) -> Any:
    """The module of a script such as ``launcher/build.py``."""
    spec = importlib.util.spec_from_file_location(Path(script).stem, PACKAGING / script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
