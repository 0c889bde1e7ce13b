"""What a session wants done when it has read something: the hall does it, in this order."""

from __future__ import annotations

from typing import NamedTuple

from svcserver.chat.stanza import Stanza
from svcserver.chat.status import Status
from svcserver.kernel.ids import AccountId


class Reply(NamedTuple):
    """Send it a stanza."""

    stanza: str


class LogIn(NamedTuple):
    """See whether the token is the account's; then it is logged in, or refused."""

    account: AccountId
    token: str


class Refuse(NamedTuple):
    """Its login fails: the condition on the wire, and the reason for the log."""

    condition: str
    reason: str
    account: AccountId = ""


class MakeRoom(NamedTuple):
    """End the account's sessions that the new one, of this resource, takes the place of."""

    resource: str


class Bound(NamedTuple):
    """It is a session now; see whether the account's others are still there."""


class Join(NamedTuple):
    """It asks to enter a room: ``room@host/nickname``."""

    to: str


class Leave(NamedTuple):
    """It leaves the room of that address."""

    to: str


class Announce(NamedTuple):
    """It says how it is."""

    status: Status


class Withdraw(NamedTuple):
    """It leaves every room and is no longer seen by friends."""


class Say(NamedTuple):
    """A line for a room."""

    said: Stanza


class Whisper(NamedTuple):
    """A line for one account."""

    said: Stanza


class TooMuch(NamedTuple):
    """A room message over the rate of stanzas: it gets its error and nothing else."""

    said: Stanza


class End(NamedTuple):
    """End it; the reason is a word of the log."""

    reason: str


class Over(NamedTuple):
    """It has ended: forget it; ``was_bound`` before that."""

    reason: str
    was_bound: bool


Effect = (
    Reply
    | LogIn
    | Refuse
    | MakeRoom
    | Bound
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
