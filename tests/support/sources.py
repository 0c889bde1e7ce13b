"""The source trees of all modules, parsed once for the dozen contract tests that read them."""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

MODULES = 2048  # more than there are


@lru_cache(maxsize=MODULES)
def parsed(text: str) -> ast.Module:
    """Return the syntax tree of a module, which callers must not change.

    The tree is exempt from garbage collection. Collecting would take twice as long as parsing, and
    each full collection would visit half a million nodes again.
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
