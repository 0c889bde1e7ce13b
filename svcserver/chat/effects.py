"""Effects: the actions that a session asks the server for, which are done in order."""

from __future__ import annotations

from typing import NamedTuple

from attrs import frozen
from twisted.words.xish.domish import Element

from svcserver.chat import stanza
from svcserver.kernel.ids import AccountId

MAX_STATUS = 4_096  # characters
SHOWS = ("away", "chat", "dnd", "xa")


@frozen
class Status:
    """An announced status: the ``show`` word and a text."""

    show: str = ""
    text: str = ""

    def stanza(self, sender: str, receiver: str) -> Element:
        """Return the presence that sends it to a friend."""
        parts = (("show", self.show), ("status", self.text))
        inner = [stanza.element(None, name, value) for name, value in parts if value]
        return stanza.element(stanza.CLIENT, "presence", *inner, from_=sender, to=receiver)


def status_of(presence: Element) -> Status:
    """Return the status in a presence; invalid parts are dropped."""
    show = stanza.content(stanza.child(presence, "show")).strip()
    text = stanza.content(stanza.child(presence, "status"))
    return Status(show if show in SHOWS else "", text if len(text) <= MAX_STATUS else "")


class Reply(NamedTuple):
    """Send the client a stanza."""

    stanza: Element


class LogIn(NamedTuple):
    """Verify the token and log the session in, or refuse it."""

    account: AccountId
    token: str


class Refuse(NamedTuple):
    """Refuse the log-in with a SASL condition for the client and a reason for the log."""

    condition: str
    reason: str
    account: AccountId = ""


class MakeRoom(NamedTuple):
    """End the sessions of the account that a new one with this resource replaces."""

    resource: str


class SessionBound(NamedTuple):
    """Ping the account's other sessions and, once all processes know it, send ``result``."""

    result: Element


class Join(NamedTuple):
    """Enter a room; ``to`` is ``room@host/nickname``."""

    to: str


class Leave(NamedTuple):
    """Leave the room of that address."""

    to: str


class Announce(NamedTuple):
    """Tell friends the session's status."""

    status: Status


class Withdraw(NamedTuple):
    """Leave every room and go offline for friends."""


class Say(NamedTuple):
    """Deliver a line to a room."""

    element: Element


class Whisper(NamedTuple):
    """Deliver a line to one account."""

    element: Element


class TooMuch(NamedTuple):
    """Refuse a room message that exceeds the rate of stanzas."""

    element: Element


class End(NamedTuple):
    """End the session; ``reason`` is for the log."""

    reason: str


class Over(NamedTuple):
    """The session has ended: forget it; ``was_bound``: it was bound before."""

    reason: str
    was_bound: bool


Effect = (
    Reply
    | LogIn
    | Refuse
    | MakeRoom
    | SessionBound
    | Join
    | Leave
    | Announce
    | Withdraw
    | Say
    | Whisper
    | TooMuch
    | End
    | Over
)
