"""Whole numbers: those that clients can hold, and those written in texts."""

from __future__ import annotations

MAX_WHOLE = 2**53 - 1  # what a client's number can hold exactly
MAX_VERSION = 2**53 - 2**32  # of a saved document: newer versions must fit above it
MAX_DIGITS = 16


def whole_in(text: str, digits: int) -> int | None:
    """Return the number that ``text`` writes with 1 to ``digits`` ASCII digits, else None.

    The bound also keeps a long text from costing time, or from an error that ``int`` raises.
    """
    if len(text) <= digits and text.isascii() and text.isdigit():
        return int(text)
    return None
