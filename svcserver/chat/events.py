"""The events of the chat; all processes, including the sender, receive them in the same order.

``worker`` is the process that published the event. ``session`` is the session's number in that
process.
"""

from __future__ import annotations

from attrs import frozen

from svcserver.kernel.ids import AccountId


@frozen
class Alive:
    """The heartbeat of process ``worker``."""

    worker: str


@frozen
class Expired:
    """The event that a process has lost its lease; all sessions of the process end."""

    worker: str


@frozen
class Hello:
    """The event with which a process asks all others to announce their sessions.

    A process publishes Hello after its start, and again if it may have missed events.
    """

    worker: str


@frozen
class Seat:
    """The seat of a bound session: the data about the session that other processes need."""

    session: int
    account: AccountId
    resource: str
    jid: str
    domain: str


@frozen
class RoomPlace:
    """A session's presence in a room, with the room's address as the client sent it."""

    session: int
    address: str
    nick: str


@frozen
class StatusShown:
    """A session's new status.

    ``to`` has the accounts of the friends who see the status. If ``show`` is None, the session is
    offline.
    """

    worker: str
    session: int
    show: str | None
    text: str = ""
    to: tuple[AccountId, ...] = ()


PIECE = 256  # sessions in one Here: some 130 KB, two milliseconds to decode


@frozen
class Here:
    """A part of one process's announcement of its sessions.

    The part has the sessions with numbers above ``since``, up to ``until``. In the last part,
    ``until`` is None. If ``readers`` is not empty, only the processes in ``readers`` handle the
    part (``Board.reads_as``). ``unheard`` has the pairs (session number, room key) whose
    ``Entering`` event the sender has published, but not received yet. For these pairs, receivers
    change nothing. ``shown`` has the sessions' statuses, each with an empty ``to``.
    """

    worker: str
    seats: tuple[Seat, ...]
    places: tuple[RoomPlace, ...]
    unheard: tuple[tuple[int, str], ...] = ()
    shown: tuple[StatusShown, ...] = ()
    since: int = 0
    until: int | None = None
    readers: tuple[str, ...] = ()

    def covers(self, number: int) -> bool:
        """Return True if the session number is above ``since`` and at most ``until``."""
        return number > self.since and (self.until is None or number <= self.until)

    def to_come(self) -> Here:
        """Return a part without sessions, which tells the receivers that more parts follow."""
        return Here(self.worker, (), (), since=self.since, until=self.since, readers=self.readers)


@frozen
class Bound:
    """The event that a session has bound its resource and can now receive stanzas."""

    worker: str
    seat: Seat


@frozen
class SessionEnded:
    """The end of a bound session."""

    worker: str
    session: int


@frozen
class Entering:
    """A session's entry into a room; each process checks the room's rules on receipt.

    The event includes the session's seat, because other processes may not have received the
    session's ``Bound``. ``seat`` is None if a process of an earlier version sends the event.
    """

    worker: str
    place: RoomPlace
    seat: Seat | None = None


@frozen
class Leaving:
    """A session's exit from a room."""

    worker: str
    session: int
    room: str
    why: str
    tell_leaver: bool


@frozen
class Said:
    """A chat line in a room; ``deaf`` lists the accounts that have blocked the author."""

    worker: str
    session: int
    room: str
    id: str | None
    body: str
    deaf: tuple[AccountId, ...]


@frozen
class Whispered:
    """A chat line for certain sessions, each identified by its process and its number."""

    worker: str
    to: tuple[tuple[str, int], ...]
    jid: str
    id: str | None
    body: str
