"""Safe file paths, for requests below ``/content/v1/files/`` and for the manifest.

An unsafe path is rejected before any file is looked up. Spec: 2 §7.
"""

import re
from urllib.parse import unquote_to_bytes

_FORBIDDEN = frozenset(':*?"<>|\\')
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_BROKEN = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_SEPARATORS = re.compile(rb"%(?:2f|5c|2e|00)", re.IGNORECASE)
MAX_PATH = 4096  # bytes of a raw path


class UnsafePath(ValueError):
    """The error for a path that is not safe; ``str()`` is the reason, for the log."""


def decode(raw: bytes) -> str:
    """Decode a request path (the part after ``files/``).

    Raises UnsafePath for encoded separators and dots, broken or double percent-encoding, bytes that
    are not UTF-8, and for everything that ``check`` rejects.
    """
    if len(raw) > MAX_PATH:
        raise UnsafePath("longer than any path")
    if _BROKEN.search(raw):
        raise UnsafePath("broken percent-encoding")
    if _SEPARATORS.search(raw):
        raise UnsafePath("an encoded separator or dot")
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise UnsafePath("not UTF-8") from None
    check(text)
    return text


def check(path: str) -> None:
    """Raise UnsafePath unless ``path`` is relative, has only plain segments, and names one file."""
    if _ENCODED.search(path):
        raise UnsafePath("still percent-encoded after one decoding")
    for character in path:
        if character in _FORBIDDEN:
            raise UnsafePath('a backslash or one of : * ? " < > |')
        if character < " " or "\x7f" <= character <= "\x9f" or "\ud800" <= character <= "\udfff":
            raise UnsafePath("a control character")
    for segment in path.split("/"):
        if segment in ("", ".", ".."):
            raise UnsafePath("an empty or dotted segment")


def is_clean(path: object) -> bool:
    """Return whether a manifest may contain ``path``."""
    if not isinstance(path, str):
        return False
    try:
        check(path)
    except UnsafePath:
        return False
    return True
