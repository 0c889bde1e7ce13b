"""JSON: parsing text from untrusted clients, and writing compact bytes."""

import json
from typing import Any

import orjson

Json = Any
Fragment = orjson.Fragment

_SHORT = 8  # members; above this, counting brackets is as cheap as checking each
MAX_DEPTH = 200  # orjson reads 1,024 levels but writes 254, and a reply wraps a request's values


class BadJson(ValueError):
    """The error for text that is not a JSON object or list."""


def parse(text: bytes | str) -> Json:
    """Parse the JSON object or list in ``text``; empty text means ``{}``.

    Raises ``BadJson`` for NaN, lone surrogates, a bare scalar, and nesting deeper than
    ``MAX_DEPTH``. Spec: 1 §4 convention 3, convention 4.
    """
    value = parse_deep(text)
    if len(text) > MAX_DEPTH and not _is_flat(value) and _may_be_deep(text) and _is_deep(value):
        raise BadJson(f"the body nests deeper than {MAX_DEPTH} levels")
    return value


def parse_deep(text: bytes | str) -> Json:
    """Parse JSON like ``parse``, but without ``MAX_DEPTH``; ``dump`` may fail for deep values."""
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
    """Return whether a value has few members, none of which is an object or a list."""
    inner = value.values() if type(value) is dict else value
    return len(value) <= _SHORT and not any(
        type(value_inside) in (dict, list) for value_inside in inner
    )


def _may_be_deep(text: bytes | str) -> bool:
    """Return whether the text has so many brackets that its value may be nested too deeply."""
    if isinstance(text, str):
        return text.count("{") + text.count("[") > MAX_DEPTH
    return text.count(b"{") + text.count(b"[") > MAX_DEPTH


def _is_deep(value: dict[str, Json] | list[Json]) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for container in level
            for inner in (container.values() if type(container) is dict else container)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def quoted(text: str) -> str:
    """Return ``text`` as a JSON string, with its quotation marks."""
    return orjson.dumps(text).decode()


def dump(value: Json) -> bytes:
    """Return compact JSON bytes; a ``Fragment`` inserts stored JSON text unchanged."""
    return orjson.dumps(value)


def dump_ascii(value: Json) -> str:
    """Return compact JSON for a terminal: each character except printable ASCII is escaped."""
    return json.dumps(value, separators=(",", ":")).replace("\x7f", "\\u007f")
