"""Redaction: removes secrets from an untrusted client's text before the text is logged.

Text is truncated before it is searched. A search takes time linear in the length of the truncated
text, as ``tests/contract/test_patterns.py`` checks. Lookbehinds and possessive quantifiers keep the
patterns from searching the same characters repeatedly. Groups have no possessive quantifier,
because Python before 3.11.5 (in Debian 12) matches such groups wrongly. Spec: 2 §5 Gateway, "Log".
"""

import re
import string
from functools import lru_cache
from urllib.parse import unquote

LONGEST = 400  # characters of a target or user agent in a log line
TOKEN, KEY, REDACTED = "<token>", "<key>", "<redacted>"
_SCAN = 4 * LONGEST  # bytes of a target that are searched; only these can be shown
_SHORT = 128  # bytes of a target whose redacted form is cached
_MIN_HEADER = 10  # characters of the first part of a token without a third part

_DOT = r"(?:\.|%2[eE])"
_CHAIN = re.compile(rf"[0-9A-Za-z_-]++(?:{_DOT}[0-9A-Za-z_-]*+)*")
_DOTS = re.compile(f"({_DOT})")
_ACCOUNT_KEY = re.compile(r"UUK(?:_|%5[fF])[0-9A-Za-z_-]++")
_LONG_HEX = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{40,}+")
_HEX = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{32,}+")
_INVITE = re.compile(r"(?<![0-9A-Za-z-])[0-9A-Za-z]{4}(?:-[0-9A-Za-z]{4}){2}(?![0-9A-Za-z-])")
_RUN = re.compile(r"(?<![0-9A-Za-z_=~+-])[0-9A-Za-z_=~+-]{40,}+")
_ACCOUNT = re.compile(r"(?:UID-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HARMLESS = re.compile(  # only account ids and words shorter than a secret: most paths
    rb"(?:/(?:(?:UID-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    rb"|(?![^/]{32})[0-9A-Za-z_.]*+(?:-[0-9A-Za-z_.]*+)?)(?![^/]))*"
)
_SECRET_PATH = re.compile(r"(?:/invitecode|/sessions/++kill)/++(?=.)", re.IGNORECASE | re.DOTALL)
_SENSITIVE = re.compile(r"key|token|secret|pass|auth|code|session|jwt|sig|cred", re.IGNORECASE)
_CONTROL = re.compile(r"[^\x20-\x7e]")
_RUNNING = string.ascii_letters + string.digits + "_=~+.%-"


def redact(text: str) -> str:
    """Return ``text`` with everything masked that looks like one of our secrets.

    The secrets are player tokens, account keys, game-server keys, hashes and invite codes.
    """
    if "eyJ" in text:
        text = _CHAIN.sub(_without_tokens, text)
    if "UUK" in text:
        text = _ACCOUNT_KEY.sub(KEY, text)
    if len(text) >= 40:
        text = _LONG_HEX.sub(REDACTED, text)
    if text.count("-") >= 2:
        text = _INVITE.sub(REDACTED, text)
    return text


def printable(text: str, longest: int = LONGEST) -> str:
    """Return a client's text for a log line: printable, truncated, and without our secrets.

    Unlike ``redact_bytes`` it keeps long runs of letters and digits, such as room and map names.
    """
    return "".join(char if char.isprintable() else "?" for char in redact(text[:_SCAN])[:longest])


def redact_bytes(raw: bytes) -> str:
    """Return a request's target or user agent for a log line: printable ASCII, without secrets.

    Everything that could be a secret is removed.
    """
    if len(raw) > _SHORT:
        return _shown(raw)
    if _HARMLESS.fullmatch(raw) and b"UUK" not in raw and b"eyJ" not in raw:
        folded = raw.lower()
        if b"code/" in folded or b"kill/" in folded:
            return _short(raw)
        return raw.decode("ascii")
    return _short(raw)


def _shown(raw: bytes) -> str:
    text = _wary(raw[:_SCAN].decode("latin-1"))
    if len(raw) > _SCAN and len(text) <= LONGEST:
        return (
            text.rstrip(_RUNNING) + "..."
        )  # the truncated last word may be part of a secret, too short to match
    return text[:LONGEST] + "..." if len(text) > LONGEST else text


_short = lru_cache(maxsize=2048)(_shown)  # clients repeat their requests


def _wary(text: str) -> str:
    path, question, query = text.partition("?")
    shown = _without_path_secret(path)
    if question or shown is not path:
        text = shown + question + "&".join(_parameter(part) for part in query.split("&"))
    plain = unquote(text, encoding="latin-1") if "%" in text else text
    decoded = _strict(plain)
    if decoded == plain:
        decoded = _strict(text)  # as it was sent: no percent-encoding hid a secret
    return _CONTROL.sub("?", decoded)


def _without_path_secret(path: str) -> str:
    """Remove the secret (such as an invite code) from a path that contains one.

    A secret is recognised by the path before it, because an owner may choose any invite code.
    """
    plain = unquote(path, encoding="latin-1") if "%" in path else path
    match = _SECRET_PATH.search(plain)
    return path if match is None else plain[: match.end()] + REDACTED


def _strict(text: str) -> str:
    text = redact(text)
    if len(text) >= 32:
        text = _RUN.sub(_unless_plain, _HEX.sub(REDACTED, text))
    return text


def _parameter(part: str) -> str:
    name, equals, _ = part.partition("=")
    return f"{name}={REDACTED}" if equals and _is_sensitive(name) else part


def _is_sensitive(name: str) -> bool:
    return bool(_SENSITIVE.search(unquote(name, encoding="latin-1") if "%" in name else name))


def _without_tokens(match: re.Match[str]) -> str:
    """Mask each JWT in a text that consists of parts joined by dots.

    A JWT begins with ``eyJ`` and consists of two or three parts. If other characters come before
    ``eyJ``, they are kept.
    """
    pieces = _DOTS.split(match[0])
    parts, at = [], 0
    while at < len(pieces):
        begin = pieces[at].find("eyJ")
        follow = pieces[at + 2 : at + 5 : 2]  # every other piece is a dot
        long = begin >= 0 and len(pieces[at]) - begin >= _MIN_HEADER
        if begin >= 0 and follow and follow[0] and (long or len(follow) == 2):
            parts.append(pieces[at][:begin] + TOKEN)
            at += 2 * len(follow) + 1
        else:
            parts.append(pieces[at])
            at += 1
    return "".join(parts)


def _unless_plain(match: re.Match[str]) -> str:
    """Mask a long run of at least two kinds of characters: digits, small letters, capital letters.

    Account ids, and runs of only one kind, are returned unchanged."""
    text = match[0]
    if _ACCOUNT.fullmatch(text):
        return text
    classes = (str.isdigit, str.islower, str.isupper)
    mixed = sum(any(kind(char) for char in text) for kind in classes) >= 2
    return REDACTED if mixed else text
