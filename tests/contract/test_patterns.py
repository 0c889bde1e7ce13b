"""Each of our regular expressions takes at most linear time on hostile text.

The test makes hostile texts from each pattern: its repeated parts many times over, with an end that
does not match. Such texts make a bad pattern backtrack. For the longest text, a pattern with
quadratic time needs a tenth of a second or more of CPU time, and a pattern with linear time needs
a few milliseconds.
"""

import ast
import importlib
import inspect
import pkgutil
import re
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import svcserver
from tests.support.sources import nodes

ROOT = Path(svcserver.__file__).parent
LENGTHS = (20, 1_000, 24_000)  # characters: short ones find a bad pattern soon
FREE_S, PER_CHARACTER_S = 0.03, 1e-6  # of processor time; quadratic: 24,000 take over 0.1 s
FROM_THE_START = {"match", "fullmatch"}  # these methods try a pattern only at the beginning
USES = {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
CALLED = re.compile(rf"\b(\w+)\.({'|'.join(sorted(USES))})\b")
WRITTEN = re.compile(rf"\bre\s*\.\s*({'|'.join(sorted(USES))})\b")
ENDS = ("", "\x00", "!", " ", "é")
Text = str


@lru_cache(maxsize=1)
def used() -> dict[tuple[Text, int, bool], set[Text]]:
    """Map every pattern in the code to the methods that the code calls on it.

    A key consists of the pattern's text, its flags, and whether it matches bytes.
    """
    patterns: dict[tuple[Text, int, bool], set[Text]] = {}
    for module in pkgutil.walk_packages(svcserver.__path__, "svcserver."):
        if ".migrations." in module.name:
            continue  # only Alembic can import migrations
        loaded = importlib.import_module(module.name)
        for name, value in vars(loaded).items():
            for pattern in patterns_in(value):
                where = inspect.getsource(loaded) if name.startswith("_") else everything()
                uses = uses_in(where).get(name, {"search"})
                patterns.setdefault(key_of(pattern), set()).update(uses)
    for path in ROOT.rglob("*.py"):
        source = path.read_text()
        if WRITTEN.search(source):  # parsing a file takes longer
            for use, pattern in inside(source):
                patterns.setdefault(key_of(pattern), set()).add(use)
    return patterns


def patterns_in(value: object) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns in a variable: its value, or the members of a collection or class."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from (member for member in value.values() if isinstance(member, re.Pattern))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (member for member in value if isinstance(member, re.Pattern))
    elif isinstance(value, type) and value.__module__.startswith("svcserver."):
        yield from (member for member in vars(value).values() if isinstance(member, re.Pattern))


def inside(source: Text) -> Iterator[tuple[Text, re.Pattern[Any]]]:
    """Yield the patterns that are written into calls of functions of ``re``.

    Each item is the name of the called function, and the pattern.
    """
    for node in nodes(source):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        of_re = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
        if of_re and node.func.attr in USES and node.args:
            constant = node.args[0]
            if isinstance(constant, ast.Constant) and isinstance(constant.value, str | bytes):
                yield node.func.attr, re.compile(constant.value)
            elif isinstance(constant, ast.JoinedStr):  # the inserted texts are our own and short
                parts = (
                    part.value if isinstance(part, ast.Constant) else "x"
                    for part in constant.values
                )
                yield node.func.attr, re.compile("".join(map(str, parts)))


@lru_cache(maxsize=1)
def everything() -> Text:
    """Return all source files, which are read from disk only once."""
    return "\n".join(path.read_text() for path in sorted(ROOT.rglob("*.py")))


@lru_cache
def uses_in(source: Text) -> dict[Text, set[Text]]:
    """Return the methods that a source file calls on each name."""
    uses: dict[Text, set[Text]] = {}
    for name, use in CALLED.findall(source):
        uses.setdefault(name, set()).add(use)
    return uses


def key_of(pattern: re.Pattern[Any]) -> tuple[Text, int, bool]:
    """Return a pattern as text, so that bytes and text patterns can be handled in the same way."""
    raw = pattern.pattern
    text = raw.decode("latin-1") if isinstance(raw, bytes) else raw
    return text, pattern.flags, isinstance(raw, bytes)


def example(tokens: Any, repeated: list[tuple[Text, Text]], before: Text = "") -> Text:
    """Return a short matching text; record each repeated part and the text before it."""
    text = ""
    for kind, value in tokens:
        text += match_node(kind, value, repeated, before + text)
    return text


def match_node(kind: Any, value: Any, repeated: list[tuple[Text, Text]], before: Text) -> Text:
    """Return a short matching text for one node of a parsed pattern."""
    if kind is sre.LITERAL:
        return chr(value)
    if kind is sre.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if kind is sre.ANY:
        return "a"
    if kind is sre.IN:
        return sample_of(value)
    if kind in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        least, _, inner = value
        body = example(inner, repeated, before)
        repeated.append((before, body))
        return body * max(1, min(least, 64))
    if kind is sre.SUBPATTERN:
        return example(value[3], repeated, before)
    if kind is sre.ATOMIC_GROUP:
        return example(value, repeated, before)
    if kind is sre.BRANCH:
        texts = [example(branch, repeated, before) for branch in value[1]]
        repeated += [(before, each) for each in texts]
        return texts[0]
    return ""  # an anchor, a look-around or a group said again


def sample_of(choices: Any) -> Text:
    """Return one character of a character class."""
    negated = choices[0][0] is sre.NEGATE
    fits = [
        code for code in (*range(97, 123), *range(32, 97), *range(0, 32)) if is_in(choices, code)
    ]
    return chr(fits[0]) if fits else ("é" if negated else "a")


def is_in(choices: Any, code: int) -> bool:
    """Return whether a character class contains a character.

    The function supports the categories for digits, spaces and word characters.
    """
    holds, letter = False, chr(code)
    kinds = {
        sre.CATEGORY_DIGIT: letter.isdigit(),
        sre.CATEGORY_SPACE: letter.isspace(),
        sre.CATEGORY_WORD: letter.isalnum() or letter == "_",
    }
    for kind, value in choices:
        if kind is sre.LITERAL:
            holds |= code == value
        elif kind is sre.RANGE:
            holds |= value[0] <= code <= value[1]
        elif kind is sre.CATEGORY:
            holds |= kinds.get(value, False)
    return holds != (choices[0][0] is sre.NEGATE)


def texts(pattern: Text, flags: int, length: int) -> Iterator[Text]:
    """Yield texts of about this length that are hard for the pattern."""
    repeated: list[tuple[Text, Text]] = []
    whole = example(_parser.parse(pattern, flags), repeated)
    pumps = {(before, body) for before, body in repeated if body} | {
        ("", whole),
        ("", whole[: len(whole) // 2]),  # in a text of many half matches, each step fails
    }
    pumps |= {("", before + body) for before, body in repeated} | {
        ("", char) for char in whole[:40]
    }
    for before, body in pumps:
        if body:
            for end in ENDS:
                yield before + body * (length // len(body)) + end


def seconds(pattern: re.Pattern[Any], uses: set[Text], text: Any) -> float:
    """Return the CPU seconds that the pattern needs for the text.

    The pattern is matched or searched for, depending on which of the two the code does.
    """
    began = time.thread_time()
    if uses <= FROM_THE_START:
        pattern.match(text)
        pattern.fullmatch(text)
    else:
        pattern.sub(text[:0], text)
    return time.thread_time() - began


def slowness(pattern: Text, flags: int, of_bytes: bool, uses: set[Text]) -> str:
    """Return the beginning of a text for which the pattern is too slow, or an empty string."""
    compiled = re.compile(pattern.encode("latin-1") if of_bytes else pattern, flags)
    for length in LENGTHS:
        for text in texts(pattern, flags & ~re.UNICODE if of_bytes else flags, length):
            sent = text.encode("latin-1", "replace") if of_bytes else text
            allowed = FREE_S + PER_CHARACTER_S * len(sent)
            if all(seconds(compiled, uses, sent) > allowed for _ in range(2)):
                return f"{text[:60]!r}, {len(text)} characters"
    return ""


def test_the_search_finds_the_regular_expressions_in_use() -> None:
    assert len(used()) > 60
    assert any("UUK" in pattern for pattern, _, _ in used())


def test_a_quadratic_pattern_is_noticed() -> None:
    parts = r"[A-Za-z0-9_-]"
    assert slowness(rf"eyJ{parts}*\.{parts}+\.{parts}*", re.UNICODE, False, {"sub"})
    assert slowness(r"(a+)+b", re.UNICODE, False, {"match"})
    assert not slowness(rf"(?<!{parts}){parts}{{40,}}+", re.UNICODE, False, {"sub"})


def test_no_pattern_is_more_than_linear() -> None:
    """One test checks all patterns, because collecting them takes a second."""
    slow = {key[0]: slowness(*key, uses) for key, uses in sorted(used().items())}
    assert {pattern: text for pattern, text in slow.items() if text} == {}


def test_no_pattern_repeats_a_group_possessively() -> None:
    """Python before 3.11.5 matches such groups wrongly, which left secrets in logs on Debian 12."""
    group = re.compile(r"(?<!\\)\)(?:[*+?]|\{[\d,]+\})\+|\(\?>")
    assert [text for text, *_ in used() if group.search(text)] == []
