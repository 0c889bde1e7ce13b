"""What a stranger's request may show in the edge's log. Spec: 2 §4 Gateway, log."""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 400
_SHORT = 128  # bytes; longer ones are rare, and would make remembering costly
_SENSITIVE = re.compile(r"key|token|secret|pass|auth|code|session|jwt|sig|cred", re.I)
_DOT = r"(?:\.|%2[eE])"
_JWT = re.compile(rf"eyJ[A-Za-z0-9_-]*{_DOT}[A-Za-z0-9_-]+{_DOT}[A-Za-z0-9_-]*")
_KEY = re.compile(r"UUK(?:_|%5[fF])[0-9A-Za-z_-]+")
_ACCOUNT = r"UID-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_HEX = re.compile(rf"({_ACCOUNT})|[0-9a-fA-F]{{32,}}")
_LONG = re.compile(rf"({_ACCOUNT}(?![A-Za-z0-9_=.~+-]))|[A-Za-z0-9_=~+-]{{40,}}")
_CONTROL = re.compile(r"[^\x20-\x7e]")
_SCAN = 4 * LONGEST  # enough to judge what is shown


def shown(raw: bytes) -> str:
    """A request target or user agent for a log line."""
    return _shown_before(raw) if len(raw) <= _SHORT else _shown(raw)


def _shown(raw: bytes) -> str:
    text = raw[:_SCAN].decode("latin-1")
    cut = len(raw) > _SCAN
    path, question, query = text.partition("?")
    text = path + question + "&".join(_parameter(part) for part in query.split("&"))
    text = _JWT.sub("<token>", text)
    text = _KEY.sub("<key>", text)
    text = _HEX.sub(_unless_account, text)
    text = _LONG.sub(_if_mixed, text)
    text = _CONTROL.sub("?", text)
    return text[:LONGEST] + "..." if cut or len(text) > LONGEST else text


_shown_before = lru_cache(maxsize=2048)(_shown)  # the same few come again and again


def _parameter(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}=<redacted>" if equals and _SENSITIVE.search(_plain(name)) else part


def _plain(name: str) -> str:
    """Percent-decoded, so that ``t%6Fken`` is seen through."""
    return re.sub(r"%([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), name)


def _unless_account(found: re.Match[str]) -> str:
    return found[0] if found[1] else "<redacted>"


def _if_mixed(found: re.Match[str]) -> str:
    text = found[0]
    classes = (str.isdigit, str.islower, str.isupper)
    mixed = sum(any(kind(char) for char in text) for kind in classes) >= 2
    return "<redacted>" if mixed and not found[1] else text
