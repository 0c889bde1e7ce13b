"""The failure of a simulated session: which part of the host failed, and how."""

from __future__ import annotations


class PlayFailed(Exception):
    """A failure of the component ``link``; ``fault`` was observed; ``str()`` is one line."""

    def __init__(self, link: str, fault: str) -> None:
        super().__init__(f"{link}: {fault}")
        self.link, self.fault = link, fault
