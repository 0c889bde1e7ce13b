"""The ids that game servers and clients choose, for example for tracks and objectives."""

from typing import TypeGuard

MAX_NAME = 128  # characters


def is_name(text: object) -> TypeGuard[str]:
    """Return whether ``text`` is printable and has 1 to ``MAX_NAME`` characters."""
    return isinstance(text, str) and 0 < len(text) <= MAX_NAME and text.isprintable()
