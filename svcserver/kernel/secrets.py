"""Secrets: hidden from every repr, compared in constant time, and stored as hashes."""

import hashlib
import hmac

from svcserver.kernel import system


class Secret:
    """A string that ``repr`` and ``str`` hide; only ``reveal`` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the string, for code that must send it or sign with it."""
        return self._value

    def matches(self, offered: str | bytes) -> bool:
        """Return whether a caller's string equals the secret, in constant time."""
        return constant_time_equal(self._value, offered)

    def __len__(self) -> int:
        return len(self._value)

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__


def constant_time_equal(expected: str | bytes, offered: str | bytes) -> bool:
    """Return whether two strings are equal, in constant time."""
    return hmac.compare_digest(_bytes(expected), _bytes(offered))


def fingerprint(text: str | bytes) -> str:
    """Return the lowercase hex SHA-256 under which a key or token is stored."""
    return hashlib.sha256(_bytes(text)).hexdigest()


def derived_key(secret: str, purpose: bytes) -> bytes:
    """Return a key for one purpose; the key reveals neither the secret nor other derived keys."""
    return hmac.digest(secret.strip().encode(), purpose, "sha256")


def hex_token(characters: int) -> str:
    """Return a random string of this many lowercase hex characters."""
    return system.token_hex(characters // 2)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
