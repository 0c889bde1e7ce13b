"""Whole numbers: the range that clients can represent, and the parsing of digits."""

from __future__ import annotations

MAX_WHOLE = 2**53 - 1  # what a client's number can hold exactly
MAX_VERSION = 2**53 - 2**32  # of a saved document: newer versions must fit above it
MAX_DIGITS = 16


def whole_in(text: str, digits: int) -> int | None:
    """Return the number written in ``text`` with 1 to ``digits`` ASCII digits, or None.

    The limit also prevents slow parsing of long text, and the error that ``int`` raises for it.
    """
    if len(text) <= digits and text.isascii() and text.isdigit():
        return int(text)
    return None
