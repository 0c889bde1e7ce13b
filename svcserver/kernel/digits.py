"""Whole numbers that are written in texts: in queries, paths, heads and settings."""

from __future__ import annotations


def whole_in(text: str, digits: int) -> int | None:
    """The number that ``text`` writes with 1 to ``digits`` ASCII digits; None for all else.

    The bound also keeps a long text from costing time, or from an error that ``int`` raises.
    """
    if len(text) <= digits and text.isascii() and text.isdigit():
        return int(text)
    return None
