"""The shapes of error replies.

A route's ``refuse`` function turns an exception into a reply that has one of these shapes.
"""

from typing import TypedDict

from svcserver.kernel.envelope import Empty


class WordedRefusal(TypedDict):
    """An error reply with a code for programs and a sentence for people."""

    error: str
    message: str


class CodedRefusal(TypedDict):
    """An error reply: a sentence, and the HTTP status as a string."""

    code: str
    message: str


class EnvelopedRefusal(TypedDict):
    """An error reply in the usual envelope: a sentence, and the HTTP status as a string."""

    code: str
    message: str
    payload: None


class GuildRefusal(TypedDict):
    """An error reply in the usual envelope: a code for programs (often empty) and a sentence."""

    code: str
    message: str
    payload: Empty
