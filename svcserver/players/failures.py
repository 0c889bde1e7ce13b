"""The failure that every simulated player must expect."""

from __future__ import annotations


class NoAnswer(Exception):
    """The request may have counted or not: nothing came back."""
