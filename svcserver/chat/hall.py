"""Everything that is shared between the sessions, and the news of the game. No I/O.

``tick`` is called once a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, evolve, field
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.chat import acts
from svcserver.chat.crowding import who_gives_way
from svcserver.chat.lockout import Lockout
from svcserver.chat.people import People, Person
from svcserver.chat.ports import About, Game, Wire
from svcserver.chat.presence import Presences
from svcserver.chat.rooms import Rooms
from svcserver.chat.session import Session
from svcserver.chat.settings import Settings
from svcserver.kernel.counters import Counted, Counters
from svcserver.kernel.ids import AccountId
from svcserver.kernel.networks import network_of
from svcserver.kernel.rates import Rate, TokenBuckets
from svcserver.kernel.signals import (
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

GAME_TIMEOUT_S = 10.0
SWEEP_S = 60.0
SWEEP_AT_ONCE = 200  # accounts read anew per tick
MAX_UNBOUND = 8  # connections per forwarded address, of IPv6 per /64
STANZAS = Rate(60, 30 * 60)
JOINS = Rate(30, 60)
PRESENCE_CHANGES = Rate(5, 30)


@define(eq=False)
class Hall:
    """The chat of one process. ``clock`` gives seconds and times out the game's answers."""

    settings: Settings
    game: Game
    clock: IReactorTime
    now: Callable[[], float]  # epoch seconds
    counters: Counters = field(factory=Counters)
    rooms: Rooms = field(factory=Rooms)
    lockout: Lockout = field(factory=Lockout)
    people: People = field(init=False)
    presences: Presences = field(init=False)
    stanza_rate: TokenBuckets = field(init=False)
    join_rate: TokenBuckets = field(init=False)
    message_rate: TokenBuckets = field(init=False)
    presence_rate: TokenBuckets = field(init=False)
    _sessions: dict[int, Session] = field(factory=dict, init=False)  # oldest first
    _number: int = field(default=0, init=False)
    _swept_at: float = field(default=0.0, init=False)

    def __attrs_post_init__(self) -> None:
        self.people = People(self.game)
        self.presences = Presences(self.people, self.settings.presence)
        keys = 2 * self.settings.max_connections
        self.stanza_rate = TokenBuckets(STANZAS, keys)
        self.join_rate = TokenBuckets(JOINS, keys)
        self.message_rate = TokenBuckets(self.settings.message_rate, keys)
        self.presence_rate = TokenBuckets(PRESENCE_CHANGES, keys)

    def seconds(self) -> float:
        """The clock that timers and rates go by."""
        return float(self.clock.seconds())

    def __len__(self) -> int:
        return len(self._sessions)

    # -- connections -------------------------------------------------------

    def may_connect(self, address: str) -> bool:
        """Whether a connection from that forwarded address ("" for direct) is taken."""
        network = network_of(address)
        waiting = sum(one.network == network and not one.bound for one in self._sessions.values())
        if network and waiting >= MAX_UNBOUND:
            taken, reason = False, "chat_unbound"
        else:
            taken, reason = not self._full or self._gives_way(network) is not None, "chat_full"
        if not taken:
            self.counters.add(Counted.REFUSALS, reason)
        return taken

    @property
    def _full(self) -> bool:
        return len(self._sessions) >= self.settings.max_connections

    def _gives_way(self, network: str) -> Session | None:
        return who_gives_way(list(self._sessions.values()), network)

    def connect(self, wire: Wire, address: str, since: float) -> Session:
        """A session for a connection that was made at ``since`` (clock seconds)."""
        older = self._gives_way(network_of(address)) if self._full else None
        if older is not None:
            self.counters.add(Counted.EVICTED_CONNECTIONS, "chat_full")
            older.end("full")
        self._number += 1
        session = Session(self, self._number, wire, address, since, self.settings.domain)
        self._sessions[session.number] = session
        log.info(
            "connect c={number} from={address} via={via}",
            number=session.number,
            address=address or "127.0.0.1",
            via="gateway" if address else "direct",
        )
        return session

    def forget(self, session: Session) -> None:
        """A session has ended."""
        self._sessions.pop(session.number, None)
        person = session.person
        if person is not None and session in person.sessions:
            person.sessions.remove(session)
            self.people.drop(person)

    def may(self, rate: TokenBuckets, session: Session) -> bool:
        """Take one of the session's tokens."""
        return rate.take(str(session.number), self.seconds()) == 0.0

    def tick(self) -> None:
        """Once a second: timeouts, and every minute who may still be where."""
        now = self.seconds()
        for session in list(self._sessions.values()):
            session.tick(now)
        if now - self._swept_at >= SWEEP_S:
            self._swept_at = now
            for key in self.rooms.keys():  # noqa: SIM118 - a method of ours, not of a dict
                self.evict_strangers(key)
        old = [one for one in self.people.all() if now - one.read_at >= SWEEP_S]
        for person in old[:SWEEP_AT_ONCE]:
            person.read_at = now  # asked; the answer says the same
            self._look_again(person)

    def _look_again(self, person: Person) -> None:
        self.read(person).addCallback(lambda _: self.evict(person))

    def shut(self) -> None:
        """Say goodbye to everyone."""
        for session in list(self._sessions.values()):
            session.end("shutdown")

    # -- what the game knows -----------------------------------------------

    def ask(self, account: AccountId) -> Deferred[About | None]:
        """The account as it is now; fails when the game does not answer in time."""
        asked: Deferred[About | None] = maybeDeferred(self.game.about, account)
        return asked.addTimeout(GAME_TIMEOUT_S, self.clock)

    def read(self, person: Person) -> Deferred[None]:
        """Read the person anew; never fails: what was known stays when the game is silent."""
        version, number = person.version, person.readings + 1
        person.readings = number

        def keep(about: About | None) -> None:
            if about is None or person.version != version or person.kept > number:
                return
            before, person.about, person.read_at = person.about, about, self.seconds()
            person.kept = number
            # what was read may be ahead of its news, which then find nothing to tell
            for other in before.friends - about.friends:
                self._end_friendship(person.account, other)

        def failed(why: Failure) -> None:
            log.failure("the game cannot be asked about {uid}", why, uid=person.account)

        reading: Deferred[Any] = self.ask(person.account)
        return reading.addCallback(keep).addErrback(failed)

    def evict(self, person: Person) -> None:
        """Remove the person from rooms it may no longer be in."""
        for session in person.bound:
            for seat in list(session.seats.values()):
                if not self.people.member(person, seat.room):
                    acts.leave_room(session, seat, "evicted")

    def evict_strangers(self, key: str) -> None:
        """Remove everyone from the room who may no longer be in it."""
        if not key.startswith(("Party-", "Guild-")):
            return
        for seat in self.rooms.occupants(key):
            person = self.people.get(seat.sitter.account)
            if person is not None and not self.people.member(person, seat.room):
                self.evict(person)

    # -- news of the game --------------------------------------------------

    def on_party_changed(self, news: PartyChanged) -> None:
        """Who left the party leaves its room."""
        for account in news.left:
            if (person := self.people.get(account)) is not None:
                self.evict(person)

    def on_guild_changed(self, news: GuildChanged) -> None:
        """Who left the guild leaves its room."""
        for account in news.left:
            if (person := self.people.get(account)) is not None:
                if person.about.guild == news.guild_id:
                    person.change(evolve(person.about, guild=None))
                self.evict(person)

    def on_sessions_ended(self, news: SessionsEnded) -> None:
        """Whoever is here as that account, or about to be, came by an old token."""
        for session in list(self._sessions.values()):
            if news.account_id in (session.account, session.progress.account):
                session.end("revoked")

    def on_renamed(self, news: Renamed) -> None:
        """The new name counts at once; the one at login still does."""
        if (person := self.people.get(news.account_id)) is not None:
            person.change(evolve(person.about, name=news.name))

    def on_friend_accepted(self, news: FriendAccepted) -> None:
        """The two see each other from now on; what was between them before has ended."""
        self._befriend(news.asked, news.accepted_by)
        self._befriend(news.accepted_by, news.asked)
        self.presences.befriend(news, iso(self.now()))

    def on_unfriended(self, news: Unfriended) -> None:
        """The two no longer see each other."""
        self._end_friendship(news.by, news.whom)

    def on_blocked(self, news: Blocked) -> None:
        """The two no longer see or hear each other."""
        self._end_friendship(news.by, news.whom)
        if (by := self.people.get(news.by)) is not None:
            by.change(evolve(by.about, blocks=by.about.blocks | {news.whom}))
        if (whom := self.people.get(news.whom)) is not None:
            whom.change(evolve(whom.about, blocked_by=whom.about.blocked_by | {news.by}))

    def _end_friendship(self, one: AccountId, other: AccountId) -> None:
        # not ``or``: both must forget, whichever of them still knew
        if self._unfriend(one, other) | self._unfriend(other, one):
            self.presences.part(one, other)

    def _unfriend(self, one: AccountId, other: AccountId) -> bool:
        """Whether ``one`` still took the other for a friend."""
        person = self.people.get(one)
        if person is None:
            return False
        friends = person.about.friends
        person.change(evolve(person.about, friends=friends - {other}))
        return other in friends

    def _befriend(self, one: AccountId, other: AccountId) -> None:
        if (person := self.people.get(one)) is not None:
            about = person.about
            # nobody can accept across a block, so one that we still know of was lifted
            person.change(
                evolve(
                    about,
                    friends=about.friends | {other},
                    blocks=about.blocks - {other},
                    blocked_by=about.blocked_by - {other},
                )
            )
