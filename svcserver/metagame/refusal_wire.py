"""The bodies of refusals; which feature answers with which, its ``refuse`` says."""

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
