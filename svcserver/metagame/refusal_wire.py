"""The shapes of the bodies of refusals; which rows answer with which, their ``refuse`` says.

What raises them is in ``kernel/refusals.py``, what makes these bodies of it in ``replies.py``.
"""

from __future__ import annotations

from typing import TypedDict

from svcserver.kernel.envelope import Empty


class WordedRefusal(TypedDict):
    """A word for programs, and a sentence for people."""

    error: str
    message: str


class CodedRefusal(TypedDict):
    """The status again, as text, and a sentence."""

    code: str
    message: str


class EnvelopedRefusal(TypedDict):
    """The status again, as text, and a sentence, in the envelope of replies."""

    code: str
    message: str
    payload: None


class GuildRefusal(TypedDict):
    """A word for programs (empty for most refusals) and a sentence, in the envelope of replies."""

    code: str
    message: str
    payload: Empty
