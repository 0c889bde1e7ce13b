"""Effects: the actions that a session asks the server to perform, in order."""

from typing import NamedTuple

from attrs import frozen
from twisted.words.xish.domish import Element

from svcserver.chat import stanza
from svcserver.kernel.ids import AccountId

MAX_STATUS = 4_096  # characters
SHOWS = ("away", "chat", "dnd", "xa")


@frozen
class PresenceStatus:
    """A presence status: the XMPP ``show`` word and a free text."""

    show: str = ""
    text: str = ""

    def stanza(self, sender: str, receiver: str) -> Element:
        """Return the presence stanza that shows this status to a friend."""
        parts = (("show", self.show), ("status", self.text))
        inner = [stanza.element(None, name, value) for name, value in parts if value]
        return stanza.element(stanza.CLIENT, "presence", *inner, from_=sender, to=receiver)


def status_of(presence: Element) -> PresenceStatus:
    """Return the status in a presence stanza; invalid parts are dropped."""
    show = stanza.content(stanza.child(presence, "show")).strip()
    text = stanza.content(stanza.child(presence, "status"))
    return PresenceStatus(show if show in SHOWS else "", text if len(text) <= MAX_STATUS else "")


class StanzaReply(NamedTuple):
    """The effect that sends a stanza to the session's client."""

    stanza: Element


class LogIn(NamedTuple):
    """The effect that verifies the token, then logs the session in or refuses the log-in."""

    account: AccountId
    token: str


class RefuseLogin(NamedTuple):
    """The refusal of a log-in, with a SASL condition for the client and a reason for the log."""

    condition: str
    reason: str
    account: AccountId = ""


class MakeRoom(NamedTuple):
    """The effect that ends older sessions of the account, to make room for a new session."""

    resource: str


class SessionBound(NamedTuple):
    """The effect that announces a new session to all processes.

    Afterwards ``result`` is sent to the session, and the account's other sessions get a ping.
    """

    result: Element


class Join(NamedTuple):
    """The effect that lets the session enter a room; ``to`` is ``room@host/nickname``."""

    to: str


class Leave(NamedTuple):
    """The effect that removes the session from the room with the given address."""

    to: str


class Announce(NamedTuple):
    """The effect that sends the session's status to the account's friends."""

    status: PresenceStatus


class Withdraw(NamedTuple):
    """The effect that removes the session from all rooms, and shows it as offline to friends."""


class Say(NamedTuple):
    """The effect that delivers a chat line to a room."""

    element: Element


class Whisper(NamedTuple):
    """The effect that delivers a chat line to one account."""

    element: Element


class TooMuch(NamedTuple):
    """The effect that replies to a room message with an error: too many stanzas were sent."""

    element: Element


class End(NamedTuple):
    """The effect that ends the session; ``reason`` is for the log."""

    reason: str


class Over(NamedTuple):
    """The effect that removes an ended session.

    ``was_bound`` is True if the session had bound a resource.
    """

    reason: str
    was_bound: bool


Effect = (
    StanzaReply
    | LogIn
    | RefuseLogin
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
