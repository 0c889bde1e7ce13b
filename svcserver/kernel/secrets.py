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
        """The value itself, for the one place that must send or sign with it."""
        return self._value

    def matches(self, offered: str | bytes) -> bool:
        """Constant-time comparison with what a caller sent."""
        return constant_time_equal(self._value, offered)

    def __len__(self) -> int:
        return len(self._value)

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__


def constant_time_equal(kept: str | bytes, offered: str | bytes) -> bool:
    """Constant-time equality of two texts."""
    return hmac.compare_digest(_bytes(kept), _bytes(offered))


def fingerprint(text: str | bytes) -> str:
    """The lowercase hex SHA-256 under which a key or token is stored."""
    return hashlib.sha256(_bytes(text)).hexdigest()


def derived_key(secret: str, purpose: bytes) -> bytes:
    """A key for one purpose, by which the secret and the keys of other purposes stay unknown."""
    return hmac.digest(secret.strip().encode(), purpose, "sha256")


def hex_token(characters: int) -> str:
    """A fresh random text of ``characters`` lowercase hex characters."""
    return system.token_hex(characters // 2)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
