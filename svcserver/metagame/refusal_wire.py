"""The shapes of the bodies of refusals. The ``refuse`` of a row chooses one.

``kernel/refusals.py`` has the exceptions, and ``replies.py`` makes these bodies from them.
"""

from __future__ import annotations

from typing import TypedDict

from svcserver.kernel.envelope import Empty


class WordedRefusal(TypedDict):
    """A code for programs, and a sentence for people."""

    error: str
    message: str


class CodedRefusal(TypedDict):
    """The status as text, and a sentence."""

    code: str
    message: str


class EnvelopedRefusal(TypedDict):
    """The status as text, and a sentence, in the envelope of replies."""

    code: str
    message: str
    payload: None


class GuildRefusal(TypedDict):
    """A code for programs (often empty) and a sentence, in the envelope of replies."""

    code: str
    message: str
    payload: Empty
