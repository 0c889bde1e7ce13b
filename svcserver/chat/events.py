"""The news between the chats of several processes, which all receive in one order.

``worker`` is the process that sent it, ``session`` the number it has there.
"""

from __future__ import annotations

from attrs import frozen

from svcserver.kernel.ids import AccountId


@frozen
class Alive:
    """A heartbeat of the process ``worker``."""

    worker: str


@frozen
class Expired:
    """The lease of a process has ended: its seats are free, and its sessions end."""

    worker: str


@frozen
class Hello:
    """The process ``worker`` has started or missed news, and asks who is online."""

    worker: str


@frozen
class Seat:
    """A bound session, as other processes know it."""

    session: int
    account: AccountId
    resource: str
    jid: str
    domain: str


@frozen
class RoomPlace:
    """An occupant, with the room's address as the client sent it."""

    session: int
    address: str
    nick: str


@frozen
class Shown:
    """A session shows a status to the accounts ``to``; ``show`` is None if it is offline."""

    worker: str
    session: int
    show: str | None
    text: str = ""
    to: tuple[AccountId, ...] = ()


PIECE = 256  # sessions in one Here: some 130 KB, two milliseconds to decode


@frozen
class Here:
    """Sessions of a process, all whose numbers are above ``since`` and up to ``until``.

    The last piece has None as ``until``. Only ``readers`` handle it, or all if there are none
    (``Board.reads_as``). ``unheard`` are sessions, by number, whose entry into a room, by its key,
    was published before this and not received back: receivers keep their state. ``shown`` are their
    statuses, addressed to nobody.
    """

    worker: str
    seats: tuple[Seat, ...]
    places: tuple[RoomPlace, ...]
    unheard: tuple[tuple[int, str], ...] = ()
    shown: tuple[Shown, ...] = ()
    since: int = 0
    until: int | None = None
    readers: tuple[str, ...] = ()

    def covers(self, number: int) -> bool:
        """Return whether this is all that the process says about the session with this number."""
        return number > self.since and (self.until is None or number <= self.until)

    def to_come(self) -> Here:
        """Return a message that only says that more follows, for a reader that has to wait."""
        return Here(self.worker, (), (), since=self.since, until=self.since, readers=self.readers)


@frozen
class Bound:
    """A session has bound its resource: from now on it can be written to."""

    worker: str
    seat: Seat


@frozen
class Gone:
    """A bound session has ended."""

    worker: str
    session: int


@frozen
class Entering:
    """A session enters a room, if that is still allowed when the news arrives.

    It includes the seat, because ``Bound`` may not have been published. A process of an earlier
    version sends only the place.
    """

    worker: str
    place: RoomPlace
    seat: Seat | None = None


@frozen
class Leaving:
    """A session leaves a room."""

    worker: str
    session: int
    room: str
    why: str
    tell_leaver: bool


@frozen
class Said:
    """A line in a room; ``deaf`` are the accounts that have blocked its author."""

    worker: str
    session: int
    room: str
    id: str | None
    body: str
    deaf: tuple[AccountId, ...]


@frozen
class Whispered:
    """A line for these sessions: process and number of each."""

    worker: str
    to: tuple[tuple[str, int], ...]
    jid: str
    id: str | None
    body: str
