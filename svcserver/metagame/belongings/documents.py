"""JSON documents that players save and get back unchanged: characters and loadouts."""

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.refusals import Malformed

MAX_DOCUMENT = 524_288  # bytes


@frozen
class Document:
    """A character's data: JSON text that is stored and returned unchanged.

    ``literal`` is the text as a quoted JSON string, as replies contain it. ``size`` is the length
    of the unquoted text in bytes.
    """

    literal: bytes = field(repr=False)
    size: int


EMPTY = Document(b'"{}"', 2)


def document(data: str, most: int = MAX_DOCUMENT) -> Document:
    """Return the document for a JSON object of at most ``most`` bytes; raises Malformed."""
    size = len(data) if data.isascii() else len(data.encode())
    if size > most:
        raise Malformed("data is too large")
    _object_in(data, json.parse_deep)  # it is stored as sent, so its depth does not matter
    return Document(json.dump(data), size)


def shallow_object(data: str) -> dict[str, Any]:
    """Return the object that a JSON text contains.

    Raises Malformed if the text has no object, or an object that is nested too deeply to be encoded
    again.
    """
    return _object_in(data, json.parse)


def _object_in(data: str, read: Callable[[str], Any]) -> dict[str, Any]:
    try:
        value = read(data) if data.strip() else None
    except json.BadJson as why:
        raise Malformed("data must be the JSON text of an object") from why
    if not isinstance(value, dict):
        raise Malformed("data must be the JSON text of an object")
    return value
