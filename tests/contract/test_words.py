"""``http`` and ``web`` know no path, header or word of the game: each service hands them its own.

What counts is what is compiled: names, texts and docstrings, without ``Spec:`` pointers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

from twisted.trial.unittest import SynchronousTestCase

import svcserver

ROOT = Path(svcserver.__file__).parent
WORDS = re.compile(
    r"game|player|metagame|gateway|hunt|guild|progression|inventory|loadout|entitlement|account"
    r"|invite|dashboard|admin|relay|allowlist|deploy(?!ed)|x-svc|chat|party|friend|launcher"
    r"|matchmaking|whisper",
    re.IGNORECASE,
)
OF_HTTP = re.compile(r"Bad Gateway|Gateway Timeout")
SPECIFICATION = re.compile(r"Spec: .*?(?:\n\n|\Z)", re.DOTALL)


def said(code: CodeType) -> Iterator[str]:
    """Names and texts of a module's code, and of what stands in it."""
    yield from (*code.co_names, *code.co_varnames, code.co_name)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from said(constant)
        else:
            yield from texts(constant)


def texts(constant: object) -> Iterator[str]:
    """The texts in a constant."""
    if isinstance(constant, tuple | frozenset):
        for one in constant:
            yield from texts(one)
    elif isinstance(constant, bytes):
        yield constant.decode("latin-1")
    elif isinstance(constant, str):
        yield constant


def words(source: str) -> list[str]:
    """Where a module's source says a word of the game, and which."""
    plain = (SPECIFICATION.sub("", one) for one in said(compile(source, "module", "exec")))
    found = ((WORDS.search(OF_HTTP.sub("", one)), one) for one in plain)
    return [f"{word[0]!r} in {one[:300]!r}" for word, one in found if word]


class WordTests(SynchronousTestCase):
    def test_a_header_a_path_a_name_and_a_docstring_are_found(self) -> None:
        for source in (
            'KEY = b"x-svc-user-api-key"',
            'def f(path):\n    return path.startswith(("/y", "/progression"))',
            "def f(row):\n    return row.game_server",
            '"""For players."""',
        ):
            self.assertEqual(len(words(source)), 1, source)
        self.assertEqual(words('"""Reads heads. Spec: 2 §7 Gateway."""\nx = "Bad Gateway"'), [])

    def test_the_storeys_below_the_services_know_none(self) -> None:
        for package in ("http", "web"):
            for path in sorted((ROOT / package).rglob("*.py")):
                self.assertEqual(words(path.read_text()), [], str(path.relative_to(ROOT)))
