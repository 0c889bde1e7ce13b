"""JSON: parsing what an untrusted client sends, and writing compact bytes."""

from __future__ import annotations

import json
from typing import Any

import orjson

Json = Any
Fragment = orjson.Fragment

_SHORT = 8  # members; where there are more, counting brackets costs no more than a look at each
MAX_DEPTH = 200  # orjson reads 1,024 levels but writes 254, and a reply wraps what was sent


class BadJson(ValueError):
    """Not the JSON text of an object or a list."""


def parse(text: bytes | str) -> Json:
    """The object or list in ``text``; empty text is ``{}``.

    Everything hostile is ``BadJson``: NaN, nesting that could not be written again, lone
    surrogates, a bare scalar (which the original's parser refuses too). Spec: 1 §4
    convention 3, convention 4.
    """
    value = read(text)
    if len(text) > MAX_DEPTH and not _is_flat(value) and _may_be_deep(text) and _is_deep(value):
        raise BadJson(f"the body nests deeper than {MAX_DEPTH} levels")
    return value


def read(text: bytes | str) -> Json:
    """As ``parse``, however deep it nests: for text that only passes through."""
    if not text.strip():
        return {}
    try:
        value = orjson.loads(text)
    except ValueError:
        raise BadJson("the body is not JSON") from None
    if not isinstance(value, dict | list):
        raise BadJson("the body is not a JSON object or list")
    return value


def _is_flat(value: dict[str, Json] | list[Json]) -> bool:
    """Whether it is short and holds no other: a save of 40 KB, whose brackets stand in a text."""
    inner = value.values() if type(value) is dict else value
    return len(value) <= _SHORT and not any(type(one) in (dict, list) for one in inner)


def _may_be_deep(text: bytes | str) -> bool:
    """Whether it has enough brackets to nest too deep; counting is much cheaper than a walk."""
    if isinstance(text, str):
        return text.count("{") + text.count("[") > MAX_DEPTH
    return text.count(b"{") + text.count(b"[") > MAX_DEPTH


def _is_deep(value: dict[str, Json] | list[Json]) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for one in level
            for inner in (one.values() if type(one) is dict else one)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def quoted(text: str) -> str:
    """``text`` as JSON, with its quotation marks."""
    return orjson.dumps(text).decode()


def dump(value: Json) -> bytes:
    """Compact JSON bytes; ``Fragment`` passes stored JSON text through untouched."""
    return orjson.dumps(value)


def dump_ascii(value: Json) -> str:
    """Compact JSON for a terminal: every character that is not printable ASCII is an escape."""
    return json.dumps(value, separators=(",", ":")).replace("\x7f", "\\u007f")
