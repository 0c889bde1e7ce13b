"""The differences between two saved documents.

Each difference has a path. JSON inside strings is also parsed, so that an owner sees the path
``inventory.swords[2]`` instead of one long line.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import frozen

from svcserver.kernel import json

MAX_CHANGES = 300
MAX_SHOWN = 160  # characters of a value
MAX_DEPTH = 60

_NOTHING = object()


@frozen
class ValueChange:
    """A changed value; ``before`` is None after an addition, ``after`` is None after a removal."""

    path: str
    before: str | None
    after: str | None


@frozen
class Diff:
    """The listed changes; ``more`` is how many further changes are not listed."""

    changes: Sequence[ValueChange]
    more: int


def difference(before: bytes, after: bytes) -> Diff:
    """Return the values that differ between two JSON texts, in their order in the newer text."""
    changes: list[ValueChange] = []
    more = 0
    for change in _walk("", _opened(before), _opened(after), 0):
        if len(changes) < MAX_CHANGES:
            changes.append(change)
        else:
            more += 1
    return Diff(changes, more)


def _walk(path: str, before: Any, after: Any, depth: int) -> Iterator[ValueChange]:
    before, after = _inside(before), _inside(after)
    if depth < MAX_DEPTH and isinstance(before, dict) and isinstance(after, dict):
        for key in [*after, *(key for key in before if key not in after)]:
            name = f"{path}.{key}" if path else str(key)
            sides = before.get(key, _NOTHING), after.get(key, _NOTHING)
            yield from _walk(name, *sides, depth + 1)
    elif depth < MAX_DEPTH and isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            left = before[index] if index < len(before) else _NOTHING
            right = after[index] if index < len(after) else _NOTHING
            yield from _walk(f"{path}[{index}]", left, right, depth + 1)
    elif before is _NOTHING or after is _NOTHING or not _same(before, after):
        yield ValueChange(path, _shown(before), _shown(after))


def _same(before: Any, after: Any) -> bool:
    return type(before) is type(after) and bool(before == after)


def _shown(value: Any) -> str | None:
    if value is _NOTHING:
        return None
    text = value if isinstance(value, str) else json.dump(value).decode()
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _opened(literal: bytes) -> Any:
    try:
        [text] = json.parse(b"[" + literal + b"]")
    except ValueError:  # not one JSON value: a row that was edited by hand
        return literal.decode("utf-8", "replace")
    return text


def _inside(value: Any) -> Any:
    """Return the parsed JSON inside a string.

    Any other value, and JSON that is nested too deeply, is returned unchanged.
    """
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            parsed = json.parse(value)
            json.dump(parsed)
        except (json.BadJson, TypeError):
            return value
        return parsed
    return value
