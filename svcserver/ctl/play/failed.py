"""The failure of a simulated evening: which part of the host failed, and how."""

from __future__ import annotations


class PlayFailed(Exception):
    """``link`` is the component that failed, ``seen`` what was observed; ``str()`` is one line."""

    def __init__(self, link: str, seen: str) -> None:
        super().__init__(f"{link}: {seen}")
        self.link, self.seen = link, seen
