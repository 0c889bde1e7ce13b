"""Source as the contracts read it: a dozen of them look at all modules, which are parsed once."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

MODULES = 2048  # more than there are


@lru_cache(maxsize=MODULES)
def parsed(text: str) -> ast.Module:
    """The tree of a module, which nobody may change.

    Nothing of it is for the collector, which would take twice as long as the parser, and go
    through half a million nodes again at each look at everything.
    """
    with _out_of_the_collectors_way():
        return ast.parse(text)


@lru_cache(maxsize=MODULES)
def nodes(text: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a module, cached: walking takes longer than parsing."""
    with _out_of_the_collectors_way():
        return tuple(ast.walk(parsed(text)))


@contextmanager
def _out_of_the_collectors_way() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()
