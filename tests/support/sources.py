"""Source as the contracts read it: a dozen of them look at all modules, which are parsed once."""

from __future__ import annotations

import ast
import gc
from functools import lru_cache

MODULES = 2048  # more than there are


@lru_cache(maxsize=MODULES)
def parsed(text: str) -> ast.Module:
    """The tree of a module, which nobody may change.

    Nothing of it is for the collector, which would take twice as long as the parser, and go
    through half a million nodes again at each look at everything.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.freeze()
        if collects:
            gc.enable()
