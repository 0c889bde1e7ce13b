"""What the chats of several processes tell each other; all hear it in one order.

``worker`` is the process that sent it, ``session`` the number it has there.
"""

from __future__ import annotations

from attrs import frozen

from svcserver.kernel.ids import AccountId


@frozen
class Alive:
    """The process ``worker`` says that it lives."""

    worker: str


@frozen
class Expired:
    """Nothing was heard of the process for too long: its seats are free, and its sessions end."""

    worker: str


@frozen
class Hello:
    """The process ``worker`` asks the others who is there: it has just come, or missed news."""

    worker: str


@frozen
class Seat:
    """A bound session, as the other workers know it."""

    session: int
    account: AccountId
    resource: str
    jid: str
    domain: str


@frozen
class Place:
    """An occupant, with the room's address as it sent it."""

    session: int
    address: str
    nick: str


@frozen
class Shown:
    """A session shows its friends, the accounts ``to``, a status; without ``show`` it is offline.

    What is shown has a ``show``, if only an empty one.
    """

    worker: str
    session: int
    show: str | None
    text: str = ""
    to: tuple[AccountId, ...] = ()


PIECE = 256  # sessions that one Here tells of: some 130 KB, two milliseconds of reading


@frozen
class Here:
    """Sessions of a process, all whose numbers are above ``since`` and up to ``until``.

    With None as ``until`` it is the last piece. Only ``readers`` take notice, or all if there are
    none (``Board.reads_as``).
    ``unheard`` are sessions, by number, that have told before this that they enter a room, by its
    key, and have not heard it themselves: whoever has, leaves them as they are. ``shown`` are
    their statuses, addressed to nobody.
    """

    worker: str
    seats: tuple[Seat, ...]
    places: tuple[Place, ...]
    unheard: tuple[tuple[int, str], ...] = ()
    shown: tuple[Shown, ...] = ()
    since: int = 0
    until: int | None = None
    readers: tuple[str, ...] = ()

    def covers(self, number: int) -> bool:
        """Whether it tells all there is to know of the session with this number."""
        return number > self.since and (self.until is None or number <= self.until)

    def to_come(self) -> Here:
        """In place of this one, where it has to wait: nothing but that more is to come."""
        return Here(self.worker, (), (), since=self.since, until=self.since, readers=self.readers)


@frozen
class Bound:
    """A session has bound its resource: from now on it can be written to."""

    worker: str
    seat: Seat


@frozen
class Gone:
    """A session has ended, in whichever worker it was."""

    worker: str
    session: int


@frozen
class Entering:
    """A session enters a room, if that may still be when all hear of it.

    It brings its seat: that it was bound may have been what nobody could be told. A process of
    an earlier version tells of the place alone.
    """

    worker: str
    place: Place
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
