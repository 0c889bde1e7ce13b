"""Run tests against a mutant, in a child of this process that knows every module already.

The trial and unittest classes of the named folders are loaded once. A first, healthy run
notes which test enters which line of the file. A mutant of a function meets the tests that
enter its line, quickest first, in a forked child in which the code of that one function is
exchanged. What is decided at import (constants, classes), and whatever has survived that, is
imported anew in a child and meets all tests.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import importlib.abc
import importlib.util
import io
import os
import resource
import signal
import sys
import time
import types
import unittest
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from tests.mutation.mutants import Mutant, apply

MEMORY = 4 << 30  # bytes of address space for a child
LEAST_S = 6.0  # of processor time; more for slow tests
SLACK = 8  # a child may take so many times as long as the healthy run
KILLED, SURVIVED, HUNG = "killed", "survived", "hung"

Cases = dict[str, unittest.TestCase]


@frozen
class Health:
    """What the run on the unchanged file showed of one test."""

    name: str
    seconds: float
    lines: frozenset[int]


@define
class Target:
    """The file that is mutated, and the tests that must notice."""

    path: Path
    folders: Sequence[str]  # where its tests are
    source: str = field(init=False)
    module: str = field(init=False)
    file: str = field(init=False)
    living: dict[tuple[str, int], Any] = field(factory=dict)  # its functions, once imported

    def __attrs_post_init__(self) -> None:
        self.source = self.path.read_text()
        self.module = ".".join(self.path.with_suffix("").parts)
        self.file = str(self.path.resolve())


def load(folders: Sequence[str]) -> Cases:
    """The tests of these files and folders by name."""
    found: Cases = {}
    for file in _files(folders):
        module = importlib.import_module(".".join(file.with_suffix("").parts))
        for case in _flat(unittest.defaultTestLoader.loadTestsFromModule(module)):
            found.setdefault(case.id(), case)
    return found


def healthy(target: Target, cases: Cases) -> list[Health]:
    """Run every test once on the file as it is, quickest first; exits when one fails."""
    for one in gc.get_objects():
        if isinstance(one, types.FunctionType) and one.__code__.co_filename == target.file:
            target.living[one.__code__.co_qualname, one.__code__.co_firstlineno] = one
    found, caches = [], _caches()
    for name, case in cases.items():
        for cache in caches:
            cache.cache_clear()
        lines: set[int] = set()
        began = time.process_time()
        sys.settrace(_noting(target.file, lines))
        try:
            good = _passes(case, sys.stderr)
        finally:
            sys.settrace(None)
        if not good:
            raise SystemExit(f"mutation: {name} fails without any fault; mend it first")
        found.append(Health(name, time.process_time() - began, frozenset(lines)))
    return sorted(found, key=lambda one: one.seconds)


def judge(target: Target, cases: Cases, health: list[Health], mutant: Mutant | None) -> str:
    """KILLED, SURVIVED or HUNG (which is killed, by its time); None is the file without a fault."""
    tree = apply(target.source, mutant) if mutant is not None else ast.parse(target.source)
    compiled = compile(tree, target.file, "exec")
    change = _changed_function(target, compiled)
    if change is not None:
        tests = [one for one in health if mutant and mutant.line in one.lines]
        verdict = _run(target, compiled, change, cases, tests)
        if verdict != SURVIVED:
            return verdict
    # what was made at an import, or is kept since, does not heed the exchange of a function
    return _run(target, compiled, None, cases, health)


def _run(
    target: Target,
    compiled: types.CodeType,
    change: tuple[Any, types.CodeType] | None,
    cases: Cases,
    tests: list[Health],
) -> str:
    seconds = max(LEAST_S, SLACK * sum(one.seconds for one in tests))
    pid = os.fork()
    if pid == 0:
        os._exit(_child(target, compiled, change, cases, [one.name for one in tests], seconds))
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        timed_out = os.WTERMSIG(status) in (signal.SIGPROF, signal.SIGALRM)
        return HUNG if timed_out else KILLED
    return KILLED if os.WEXITSTATUS(status) else SURVIVED


def _child(
    target: Target,
    compiled: types.CodeType,
    change: tuple[Any, types.CodeType] | None,
    cases: Cases,
    tests: list[str],
    seconds: float,
) -> int:
    """The exit status: 1 when a test failed."""
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 20 * seconds)
    try:
        if change is None:
            cases = _imported_anew(target, compiled)
        else:
            function, code = change
            function.__code__ = code
            for cache in _caches():
                cache.cache_clear()
        return 0 if all(_passes(cases[name], io.StringIO()) for name in tests) else 1
    except BaseException:  # whatever a broken import raises
        return 1


def _caches() -> list[Any]:
    """What remembers answers of our code; another test's or healthy code's must not count."""
    found = [one for one in gc.get_objects() if isinstance(one, functools._lru_cache_wrapper)]
    return [one for one in found if one.__module__.startswith("svcserver")]


def _passes(case: unittest.TestCase, stream: Any) -> bool:
    result = unittest.TextTestResult(
        unittest.runner._WritelnDecorator(stream),
        descriptions=False,
        verbosity=0,
    )
    case.run(result)
    if not result.wasSuccessful():
        result.printErrors()
    return result.wasSuccessful()


# -- lines -------------------------------------------------------------------


def _noting(file: str, lines: set[int]) -> Any:
    """A trace function that notes the lines of one file and leaves other frames alone."""

    def line(frame: types.FrameType, event: str, arg: Any) -> Any:
        lines.add(frame.f_lineno)
        return line

    def call(frame: types.FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename != file:
            return None
        # from the first to the last: a constant over several lines has one line of code
        own = [at for _, _, at in frame.f_code.co_lines() if at is not None]
        lines.update(range(min(own), max(own) + 1))
        return None

    return call


def _changed_function(
    target: Target, compiled: types.CodeType
) -> tuple[Any, types.CodeType] | None:
    """The living function that holds the fault and its new code; None: decided at import."""
    for code in _codes(compiled):
        function = target.living.get((code.co_qualname, code.co_firstlineno))
        if function is None or code == function.__code__:
            continue
        if code.co_freevars == function.__code__.co_freevars:
            return function, code
    return None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The functions of a module and of its classes."""
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield one
            yield from _codes(one)


# -- imports -----------------------------------------------------------------


@define
class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the mutant wherever somebody imports the file."""

    module: str
    compiled: types.CodeType

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        return importlib.util.spec_from_loader(fullname, self)

    def exec_module(self, module: types.ModuleType) -> None:
        exec(self.compiled, module.__dict__)  # noqa: S102


def _imported_anew(target: Target, compiled: types.CodeType) -> Cases:
    for name in list(sys.modules):
        if name.split(".")[0] in ("svcserver", "tests"):
            del sys.modules[name]
    sys.meta_path.insert(0, _Mutated(target.module, compiled))
    return load(target.folders)


def _files(folders: Sequence[str]) -> Iterator[Path]:
    for folder in map(Path, folders):
        yield from sorted(folder.glob("**/test_*.py")) if folder.is_dir() else [folder]


def _flat(suite: Any) -> Iterator[unittest.TestCase]:
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from _flat(one)
        else:
            yield one
