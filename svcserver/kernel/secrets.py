"""Secrets that no repr shows, their constant-time comparison, and their hashes."""

from __future__ import annotations

import hashlib
import hmac

from svcserver.kernel import system


class Secret:
    """A text that ``repr`` and ``str`` hide; only ``reveal`` gives the value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value, for the code that must send it or sign with it."""
        return self._value

    def matches(self, offered: str | bytes) -> bool:
        """Compare with a caller's text in constant time."""
        return constant_time_equal(self._value, offered)

    def __len__(self) -> int:
        return len(self._value)

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__


def constant_time_equal(expected: str | bytes, offered: str | bytes) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(_bytes(expected), _bytes(offered))


def fingerprint(text: str | bytes) -> str:
    """Return the lowercase hex SHA-256 under which a key or token is stored."""
    return hashlib.sha256(_bytes(text)).hexdigest()


def derived_key(secret: str, purpose: bytes) -> bytes:
    """Return a key for one purpose, which reveals neither the secret nor other keys."""
    return hmac.digest(secret.strip().encode(), purpose, "sha256")


def hex_token(characters: int) -> str:
    """Return a random text of ``characters`` lowercase hex characters."""
    return system.token_hex(characters // 2)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
