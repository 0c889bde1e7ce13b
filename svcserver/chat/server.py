"""The chat of one process: it performs what sessions request, and handles the game's signals.

This module does no I/O; its caller runs ``tick`` once a second.
"""

from collections.abc import Callable
from typing import Any

from attrs import define, evolve, field
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from svcserver.board.board import Board
from svcserver.chat.admission import Admission
from svcserver.chat.effects import (
    Announce,
    Effect,
    End,
    Join,
    Leave,
    LogIn,
    MakeRoom,
    Over,
    PresenceStatus,
    RefuseLogin,
    Say,
    SessionBound,
    StanzaReply,
    TooMuch,
    Whisper,
    Withdraw,
)
from svcserver.chat.eviction import Crowd
from svcserver.chat.messages import Messages, not_acceptable
from svcserver.chat.people import People, Person
from svcserver.chat.ports import GameAccess, Wire
from svcserver.chat.presence import Friendships, Presences
from svcserver.chat.rates import Rates
from svcserver.chat.readings import Readings, pause
from svcserver.chat.room_access import RoomAccess
from svcserver.chat.rooms import Rooms
from svcserver.chat.session import Session
from svcserver.chat.settings import ChatSettings
from svcserver.chat.workers import Workers
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.networks import network_of
from svcserver.kernel.signals import (
    Announced,
    Blocked,
    FriendAccepted,
    GuildChanged,
    PartyChanged,
    Renamed,
    SessionsEnded,
    Unfriended,
)
from svcserver.kernel.times import iso

log = Logger()

SWEEP_S = 60.0
SHARED_ROOMS = 100_000  # of all processes together
SHARED_OCCUPANTS = 1_000
SWEEP_AT_ONCE = 200  # accounts re-read per tick
# in the format that clients expect, with an account that nobody can have
SERVER_NICK = "Server:UID-00000000-0000-0000-0000-000000000000:server"
MAX_UNBOUND = 8  # connections still logging in, per forwarded IPv4 address or IPv6 /64


@define(eq=False, repr=False)
class ChatServer:
    """All sessions and their shared state. The timeouts use ``clock``."""

    settings: ChatSettings
    game: GameAccess
    board: Board
    clock: IReactorTime
    wall_clock: Callable[[], float]  # epoch seconds
    counters: Counters = field(factory=Counters)
    rooms: Rooms = field(factory=Rooms)
    rates: Rates = field(init=False)
    people: People = field(init=False)
    presences: Presences = field(init=False)
    friendships: Friendships = field(init=False)
    readings: Readings = field(init=False)
    admission: Admission = field(init=False)
    room_access: RoomAccess = field(init=False)
    messages: Messages = field(init=False)
    workers: Workers | None = field(default=None, init=False)  # if other processes share the board
    _sessions: dict[int, Session] = field(factory=dict, init=False)  # oldest first
    _crowd: Crowd[Session] = field(factory=Crowd, init=False)  # the same sessions by network
    _number: int = field(default=0, init=False)
    _swept_at: float = field(default=0.0, init=False)
    _handlers: dict[type[Any], Callable[[Session, Any], None]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.rates = Rates(self.settings)
        self.people = People(self.game)
        self.presences = Presences(self.people, self.settings.presence)
        self.friendships = Friendships(self.people, self.presences)
        self.readings = Readings(self.game, self.clock, self.people, self.friendships)
        self.admission = Admission(self.game, self.people, self.readings, self.counters, self.board)
        self.room_access = RoomAccess(self.rooms, self.people, self.readings)
        self.messages = Messages(self.rooms, self.people, self.readings, self.room_access)
        if self.board.shared:
            self.rooms.max_rooms, self.rooms.max_occupants = SHARED_ROOMS, SHARED_OCCUPANTS
            self.workers = Workers(
                self.board, self.rooms, self.room_access, self.presences, self.seconds
            )
            self.room_access.together = self.messages.together = self.workers
            self.presences.elsewhere = self.workers
        self._handlers = {
            StanzaReply: lambda session, effect: session.write(effect.stanza),
            LogIn: self.admission.log_in,
            RefuseLogin: self.admission.refuse,
            MakeRoom: self.admission.make_room,
            SessionBound: self._bound,
            Join: self.room_access.join,
            Leave: self.room_access.ask_to_leave,
            Announce: self._announce,
            Withdraw: self._withdraw,
            Say: self.messages.deliver_to_room,
            Whisper: self.messages.whisper,
            TooMuch: lambda session, effect: not_acceptable(session, effect.element),
            End: lambda session, effect: session.end(effect.reason),
            Over: self._forget,
        }

    def seconds(self) -> float:
        """Return the clock's time in seconds, for timers and rates."""
        return float(self.clock.seconds())

    def __len__(self) -> int:
        return len(self._sessions)

    # -- connections -------------------------------------------------------

    def may_connect(self, address: str) -> bool:
        """Return whether to accept a connection; ``address`` is "" without a gateway."""
        network = network_of(address)
        if network and self._crowd.waiting.count(network) >= MAX_UNBOUND:
            taken, reason = False, "chat_unbound"
        else:
            taken = not self._full or self._crowd.choose_to_close(network) is not None
            reason = "chat_full"
        if not taken:
            self.counters.add(Counted.REFUSALS, reason)
        return taken

    @property
    def _full(self) -> bool:
        return len(self._sessions) >= self.settings.max_connections

    def connect(self, wire: Wire, address: str, since: float) -> Session:
        """Create a session for a connection made at ``since``.

        If the chat is full and ``Crowd`` finds a connection to close, that connection is closed.
        """
        older = self._crowd.choose_to_close(network_of(address)) if self._full else None
        if older is not None:
            self.counters.add(Counted.EVICTED_CONNECTIONS, "chat_full")
            older.end("full")
        self._number += 1
        session = Session(
            self._number,
            wire,
            address,
            since,
            self.settings,
            self.seconds,
            self.rates,
            self._perform,
        )
        self._sessions[session.number] = session
        self._crowd.waiting.add(session)
        if self.admission.may_log(session):
            log.info(
                "connect c={number} from={address} via={via}{omitted}",
                number=session.number,
                address=address or "127.0.0.1",
                via="gateway" if address else "direct",
                omitted=self.admission.omitted_text(),
            )
        return session

    def _perform(self, session: Session, effect: Effect) -> None:
        self._handlers[type(effect)](session, effect)

    def _bound(self, session: Session, effect: SessionBound) -> None:
        self._crowd.bound(session)
        self.admission.bound(session)
        if self.workers is None:
            session.write(effect.result)
        else:
            published = self.workers.bound(session)
            pause(session, published, lambda _: session.write(effect.result))

    def _forget(self, session: Session, over: Over) -> None:
        self.room_access.leave_all(
            session, "replaced" if over.reason == "replaced" else "disconnect"
        )
        if over.was_bound and over.reason != "shutdown":
            self.presences.withdraw(session)
        if session.account or self.admission.may_log(session):
            log.info(
                "closed c={number} uid={uid} reason={reason} after={after}s",
                number=session.number,
                uid=session.account,
                reason=over.reason,
                after=int(self.seconds() - session.since),
            )
        self._sessions.pop(session.number, None)
        self._crowd.left(session)
        self.admission.left(session, over)
        if self.workers is not None:
            self.workers.gone(session)

    def tick(self) -> None:
        """Check timeouts and, every minute, whether occupants are still allowed in their rooms."""
        now = self.seconds()
        if self.workers is not None:
            self.workers.tick()
        for session in list(self._sessions.values()):
            effects = session.tick(now)
            if effects:
                session.perform(effects)
            if session.waiting_status is not None and not session.ended:
                self._announce_status(session, session.waiting_status)
        if now - self._swept_at >= SWEEP_S:
            self._swept_at = now
            self.room_access.sweep()
        old = [person for person in self.people.all() if now - person.read_at >= SWEEP_S]
        for person in old[:SWEEP_AT_ONCE]:
            person.read_at = now  # so that the next tick does not read it again
            self._reread(person)

    def _reread(self, person: Person) -> None:
        self.readings.reread(person).addCallback(lambda _: self.room_access.evict(person))

    def reread_all(self) -> None:
        """Read all online accounts again, a few per tick, because changes may have been missed."""
        for person in self.people.all():
            person.read_at = -SWEEP_S

    def shut(self) -> None:
        """End every session, because the service stops."""
        for session in list(self._sessions.values()):
            session.end("shutdown")

    # -- presence ----------------------------------------------------------

    def _announce(self, session: Session, effect: Announce) -> None:
        if self.settings.presence:
            self.readings.freshly(session, lambda: self._announce_status(session, effect.status))

    def _announce_status(self, session: Session, status: PresenceStatus) -> None:
        """Send friends the status, or keep it for later if the rate limit is reached."""
        if session.status == status:
            session.waiting_status = None
        elif self.rates.presence(session.number, self.seconds()):
            session.waiting_status = None
            self.presences.announce(session, status)
        else:
            session.waiting_status = status

    def _withdraw(self, session: Session, _: Withdraw) -> None:
        self.room_access.leave_all(session, "left")
        self.presences.withdraw(session)

    # -- the game's signals --------------------------------------------------

    def on_party_changed(self, news: PartyChanged) -> None:
        """Remove accounts that left the party from the party's room."""
        for account in news.left:
            if (person := self.people.get(account)) is not None:
                self.room_access.evict(person)

    def on_guild_changed(self, news: GuildChanged) -> None:
        """Remove accounts that left the guild from the guild's rooms."""
        for person in self.people.all() if not news.left else map(self.people.get, news.left):
            if person is None:
                continue
            rooms = person.about.rooms
            left = {room for room in rooms if news.guild_id in ("", room[1])}
            if left or news.guild_id == "":  # data requested earlier are discarded
                person.change(evolve(person.about, rooms=rooms - left))
            if left or news.left:
                self.room_access.evict(person)

    def on_sessions_ended(self, news: SessionsEnded) -> None:
        """End all sessions of the account, including those that are still logging in.

        All of them used a token that is now revoked.
        """
        for session in list(self._sessions.values()):
            if news.account_id in (session.account, session.claim):
                session.end("revoked")

    def on_renamed(self, news: Renamed) -> None:
        """Allow nicknames with the account's new name; the name used at log-in is still allowed."""
        if (person := self.people.get(news.account_id)) is not None:
            person.change(evolve(person.about, name=news.name))

    def on_friend_accepted(self, news: FriendAccepted) -> None:
        self.friendships.begin(news, iso(self.wall_clock()))

    def on_announced(self, news: Announced) -> None:
        """Send a server announcement to everyone in a room."""
        count = self.rooms.announce(SERVER_NICK, news.text)
        log.info("announced len={length} to={count}", length=len(news.text), count=count)

    def on_unfriended(self, news: Unfriended) -> None:
        self.friendships.end(news.by, news.whom)

    def on_blocked(self, news: Blocked) -> None:
        self.friendships.block(news)
