"""The compiled route table, which maps a method and a path to a route.

The table ignores a trailing slash and the letter case of static segments. A path without parameters
is found with one dictionary look-up. Each method has its own trie, so that routes of different
methods do not affect each other.
"""

from functools import lru_cache
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

from attrs import define, field

from svcserver.web.request import without_nul
from svcserver.web.routes import WebRow

T = TypeVar("T")
Parameters = dict[str, str]
_LEAF = ""
_ANY = "<>"


class BadPath(ValueError):
    """The error for a path parameter that is not percent-encoded UTF-8."""


@lru_cache(maxsize=1024)
def _way(path: str) -> tuple[tuple[str, ...], bytes | None]:
    """Return the trie keys of a route's path, and the lowercase path as bytes.

    The second value is None if the path has parameters. The result is cached, because tests and the
    simulation mount the same routes many times.
    """
    segments = [segment for segment in path.lower().split("/") if segment]
    way = tuple(_ANY if segment.startswith("<") else segment for segment in segments)
    return way, None if "<" in path else b"/" + "/".join(segments).encode()


@define
class RouteTable(Generic[T]):
    """A route table, built once from the mounted routes; ``T`` is the type of a route's value."""

    _fixed: dict[tuple[str, bytes], T] = field(factory=dict, init=False)
    _tries: dict[str, dict[str, Any]] = field(factory=dict, init=False)

    def add(self, row: WebRow, value: T) -> None:
        """Mount ``row``; a second route with the same method and path pattern is a defect."""
        way, fixed = _way(row.path)
        if fixed is not None:
            key = (row.method, fixed)
            if key in self._fixed:
                raise ValueError(f"{row.name} is mounted twice")
            self._fixed[key] = value
        node = self._tries.setdefault(row.method, {})
        for segment in way:
            node = node.setdefault(segment, {})
        if _LEAF in node:
            raise ValueError(f"{row.name} is mounted twice")
        node[_LEAF] = value, row.parameters

    def match(self, method: str, path: bytes) -> tuple[T, Parameters] | None:
        """Return the matching route's value and the decoded parameters; raises BadPath."""
        if method == "HEAD":
            method = "GET"
        fixed = self._fixed.get((method, path))
        if fixed is not None:
            return fixed, {}
        folded = path.lower()
        fixed = self._fixed.get((method, folded[:-1] if folded.endswith(b"/") else folded))
        if fixed is not None:
            return fixed, {}
        return self._match_parameters(method, path)

    def _match_parameters(self, method: str, path: bytes) -> tuple[T, Parameters] | None:
        trie = self._tries.get(method)
        if trie is None or not path.startswith(b"/"):
            return None
        segments = path[1:].decode("latin-1").split("/")
        if segments[-1] == "":
            segments.pop()
        match = _walk(trie, segments, 0)
        if match is None:
            return None
        (leaf, names), values = match
        try:
            decoded = [_decode(value) for value in values]
        except UnicodeDecodeError as error:
            raise BadPath("a path parameter is not UTF-8") from error
        return leaf, dict(zip(names, decoded, strict=True))


def _walk(node: dict[str, Any], segments: list[str], at: int) -> tuple[Any, list[str]] | None:
    """Return the leaf to which ``segments[at:]`` leads, and the values of the parameters."""
    if at == len(segments):
        leaf = node.get(_LEAF)
        return None if leaf is None else (leaf, [])
    segment = segments[at]
    if not segment:
        return None
    fixed = node.get(segment.lower())
    if fixed is not None:
        match = _walk(fixed, segments, at + 1)
        if match is not None:
            return match
    anything = node.get(_ANY)
    if anything is None:
        return None
    match = _walk(anything, segments, at + 1)
    return None if match is None else (match[0], [segment, *match[1]])


def _decode(segment: str) -> str:
    if "%" not in segment and segment.isascii() and "\0" not in segment:
        return segment
    text = unquote(segment, encoding="utf-8", errors="strict")
    if not text.isascii():
        text = unquote(segment.encode("latin-1"), encoding="utf-8", errors="strict")
    return without_nul(text)
