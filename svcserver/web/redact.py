"""What may stand in a log of a stranger's request: never a secret, never a control character."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from svcserver.web.routes import Row

_SECRET = re.compile(
    r"UUK_[0-9A-Fa-f]+"  # account keys
    r"|ey[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.?[A-Za-z0-9_-]*"  # player tokens
    r"|[0-9A-Fa-f]{40,}"  # game-server keys, purchase tokens, hashes
    r"|(?<![0-9A-Za-z-])[0-9A-Za-z]{4}(?:-[0-9A-Za-z]{4}){2}(?![0-9A-Za-z-])"  # invite codes
)
MAX_PATH = 512  # characters of a path in a log line
MAX_KNOWN = 128  # bytes of a path whose wording is remembered


def redact(text: str) -> str:
    """``text`` without anything that has the shape of a key or token."""
    return _SECRET.sub("***", text)


def safe_path(path: bytes, row: Row | None = None) -> str:
    """A request path for a log line: printable ASCII, secrets replaced, bounded."""
    if len(path) <= MAX_KNOWN and (row is None or not row.secret_path):
        return _known(path)  # clients ask for the same paths again and again
    return _shown(path, row)


@lru_cache(maxsize=4_096)
def _known(path: bytes) -> str:
    return _shown(path, None)


def _shown(path: bytes, row: Row | None) -> str:
    text = path[: MAX_PATH * 2].decode("latin-1")
    if not (text.isascii() and text.isprintable()):
        text = _encoded(text)
    if row is not None and row.secret_path:
        text = _hide(text, row)
    if "%" in text:
        text = _see_through(text)
    return redact(text)[:MAX_PATH]


def _see_through(text: str) -> str:
    """Decoded where only the percent-encoding hides a secret; else as it was."""
    plain = unquote(text, encoding="latin-1")
    if redact(plain) == plain:
        return text
    return _encoded(redact(plain))


def _encoded(text: str) -> str:
    return "".join(c if " " < c < "\x7f" else f"%{ord(c):02X}" for c in text)


def _hide(text: str, row: Row) -> str:
    """Replace the segments of the row's secret parameters."""
    pattern = [segment for segment in row.path.split("/") if segment]
    sent = [segment for segment in text.split("/") if segment]
    hidden = {f"<{name}>" for name in row.secret_path}
    kept = ["***" if p in hidden else s for p, s in zip(pattern, sent, strict=False)]
    return "/" + "/".join(kept)
