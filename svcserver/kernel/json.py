"""JSON as a stranger may send it, and as we send it."""

from __future__ import annotations

from typing import Any

import orjson

Json = Any
Fragment = orjson.Fragment


class BadJson(ValueError):
    """Not the JSON text of an object or a list."""


def parse(text: bytes | str) -> Json:
    """The object or list in ``text``; empty text is ``{}``.

    Everything hostile is ``BadJson``: NaN, endless nesting, lone surrogates, a bare
    scalar (which the original's parser refuses too). Spec: 1 §4 conventions 3 and 4.
    """
    if not text.strip():
        return {}
    try:
        value = orjson.loads(text)
    except ValueError:
        raise BadJson("the body is not JSON") from None
    if not isinstance(value, dict | list):
        raise BadJson("the body is not a JSON object or list")
    return value


def dump(value: Json) -> bytes:
    """Compact JSON bytes; ``Fragment`` passes stored JSON text through untouched."""
    return orjson.dumps(value)
