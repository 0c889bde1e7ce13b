"""What an evening fails with: the link of the chain, and what was seen there."""

from __future__ import annotations


class Broken(Exception):
    """``link`` is a component or part of the chain; ``str()`` is one line for the owner."""

    def __init__(self, link: str, seen: str) -> None:
        super().__init__(f"{link}: {seen}")
        self.link, self.seen = link, seen
