"""Whole numbers: the range that clients can represent, and the parsing of digits."""

MAX_WHOLE = 2**53 - 1  # the largest number that a client represents exactly
MAX_VERSION = 2**53 - 2**32  # version of a saved document; leaves room for newer versions
MAX_DIGITS = 16


def whole_in(text: str, digits: int) -> int | None:
    """Return ``text`` as a number, or None if it is not 1 to ``digits`` ASCII digits.

    Longer text is not parsed, because ``int`` is slow or raises an error for very long text.
    """
    if len(text) <= digits and text.isascii() and text.isdigit():
        return int(text)
    return None
