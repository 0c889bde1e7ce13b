"""Ids that a game server or a client makes up: of tracks, objectives, entitlements, bounties."""

from __future__ import annotations

from typing import TypeGuard

MAX_NAME = 128  # characters


def is_name(text: object) -> TypeGuard[str]:
    """Whether ``text`` can be such an id."""
    return isinstance(text, str) and 0 < len(text) <= MAX_NAME and text.isprintable()
