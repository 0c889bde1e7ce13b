"""The sessions of other processes, with their seats and rooms.

Events about one session (such as ``Entering`` and ``SessionEnded``) are applied as they arrive. A
``Here`` event replaces what is known about several sessions, in case events were missed.
"""

from collections.abc import Callable
from typing import ClassVar

from attrs import define, field

from svcserver.chat.effects import PresenceStatus
from svcserver.chat.events import Here, RoomPlace, Seat, StatusShown
from svcserver.chat.names import Room, room_of, split_address
from svcserver.chat.rooms import Occupant, Rooms
from svcserver.chat.session import Session
from svcserver.kernel.ids import AccountId


@define(eq=False)
class Ghost:
    """A session that another process holds; only that process sends frames to the client."""

    elsewhere: ClassVar[bool] = True
    seat: Seat
    in_rooms: dict[str, Occupant] = field(factory=dict)
    status: PresenceStatus | None = None
    shown_to: frozenset[AccountId] = frozenset()  # accounts that saw the status

    @property
    def account(self) -> AccountId:
        return self.seat.account

    @property
    def jid(self) -> str:
        return self.seat.jid

    def deliver(self, frame: bytes) -> None:
        """Do nothing: the session's own process writes to the client."""

    def deliver_behind(self, frame: bytes) -> None:
        """Do nothing: the session's own process writes to the client."""


def seat_of(session: Session) -> Seat:
    """Return the session's seat: the data that other processes need about the session."""
    return Seat(session.number, session.account, session.resource, session.jid, session.domain)


@define(eq=False)
class Ghosts:
    """All sessions of other processes.

    ``correct`` calls ``sit`` for each new session. Each removed session is passed to ``stand_up``.
    Changed statuses are passed to ``restate``.
    """

    rooms: Rooms
    sit: Callable[[str, Seat], None]
    stand_up: Callable[[str, int, AccountId], None]
    restate: Callable[[list[tuple[Ghost, PresenceStatus | None]]], None]
    _those: dict[str, dict[int, Ghost]] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return sum(map(len, self._those.values()))

    def find(self, worker: str, number: int) -> Ghost | None:
        return self._those.get(worker, {}).get(number)

    def come(self, worker: str, seat: Seat) -> None:
        """Add a session of the process ``worker``, unless the session is already known."""
        self._those.setdefault(worker, {}).setdefault(seat.session, Ghost(seat))

    def enter(self, worker: str, place: RoomPlace) -> Room | None:
        """Let a session enter a room; return the room, or None if the session could not enter."""
        ghost = self.find(worker, place.session)
        room = None if ghost is None else room_at(place, ghost.seat.domain)
        if ghost is None or room is None:
            return None
        if room.key in ghost.in_rooms and ghost.in_rooms[room.key].nick == place.nick:
            return room
        if self.rooms.conflict(room, place.nick, ghost.account) or self.rooms.full(room, ghost):
            return None
        self.rooms.enter(ghost, room, place.nick)
        return room

    def drop(self, worker: str, number: int) -> None:
        """Remove a session of the process ``worker``."""
        ghost = self._those.get(worker, {}).pop(number, None)
        if ghost is None:
            return
        for occupant in list(ghost.in_rooms.values()):
            self.rooms.leave(occupant, tell_leaver=False)
        self.stand_up(worker, number, ghost.account)
        if ghost.status is not None:
            self.restate([(ghost, None)])

    def forget(self, worker: str) -> int:
        """Remove a process and its sessions; returns the number of sessions removed."""
        numbers = list(self._those.get(worker, {}))
        for number in numbers:
            self.drop(worker, number)
        self._those.pop(worker, None)
        return len(numbers)

    def correct(self, news: Here) -> None:
        """Replace what is known about a process by the content of its ``Here`` event.

        ``news`` has the state after all earlier events of that process. ``news.unheard`` lists
        the pairs of session and room for which nothing changes.
        """
        known = self._those.setdefault(news.worker, {})
        there = {seat.session: seat for seat in news.seats}
        for number in [number for number in known if news.covers(number) and number not in there]:
            self.drop(news.worker, number)
        for number, seat in there.items():
            if number not in known:
                self.sit(news.worker, seat)
        placed = set(news.unheard)
        for place in news.places:
            room = self.enter(news.worker, place)
            if room is not None:
                placed.add((place.session, room.key))
        told_of = [(number, ghost) for number, ghost in known.items() if news.covers(number)]
        for number, ghost in told_of:
            for key, occupant in list(ghost.in_rooms.items()):
                if (number, key) not in placed:
                    self.rooms.leave(occupant, tell_leaver=False)
        shown = {number.session: status_in(number) for number in news.shown}
        self.restate(
            [
                (ghost, shown.get(number))
                for number, ghost in told_of
                if ghost.status != shown.get(number)
            ]
        )


def status_in(news: StatusShown) -> PresenceStatus | None:
    """Return the status in the event, or None if the session is offline."""
    return None if news.show is None else PresenceStatus(news.show, news.text)


def room_at(place: RoomPlace, domain: str) -> Room | None:
    """Return the room of a ``RoomPlace``, or None if the address is invalid."""
    local, host, _ = split_address(place.address)
    return room_of(local, host, domain)


@define(eq=False)
class Seats:
    """The bound sessions of each account, oldest first, with their processes.

    Account ids are compared without regard to letter case.
    """

    _those: dict[str, list[tuple[str, Seat]]] = field(factory=dict, init=False)

    def __len__(self) -> int:
        """Return the number of accounts with bound sessions."""
        return len(self._those)

    def of_account(self, account: str) -> list[tuple[str, Seat]]:
        return list(self._those.get(account.lower(), ()))

    def has(self, worker: str, seat: Seat) -> bool:
        return any(
            (where, taken.session) == (worker, seat.session)
            for where, taken in self.of_account(seat.account)
        )

    def take(self, worker: str, seat: Seat) -> None:
        """Record a session of the process ``worker`` as the newest session of the account."""
        self._those.setdefault(seat.account.lower(), []).append((worker, seat))

    def free(self, worker: str, number: int, account: AccountId) -> None:
        key = account.lower()
        left = [
            taken
            for taken in self.of_account(key)
            if (taken[0], taken[1].session) != (worker, number)
        ]
        if left:
            self._those[key] = left
        else:
            self._those.pop(key, None)
