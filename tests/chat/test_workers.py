"""Two processes that form one chat: rooms, lines, whispers, seats, and clean-up after a crash."""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.board import BoardTransaction
from svcserver.board.engine import BoardAway
from svcserver.board.rehearsed import RehearsedBoard
from svcserver.chat import room_access, workers
from svcserver.chat.events import Hello
from svcserver.chat.leases import ALIVE_S, LEASE_S
from svcserver.kernel.signals import Blocked
from tests.chat.fixture import DOMAIN, ChatFixture, Client, FakeGame, account, resource

ROOM = "General"


class SharedBoard(RehearsedBoard):
    """A board shared by several chat servers, each of which represents a process."""

    shared = True
    away = False
    slow: list[Callable[[], None]] | None = None  # if this is a list, notifications wait in it

    def transact(self, work: Callable[[BoardTransaction], Any], near: Any = ()) -> Deferred[Any]:
        if self.away:
            return fail(BoardAway())
        if self.slow is None:
            return super().transact(work, near)
        done: Deferred[Any] = Deferred()
        self.slow.append(lambda: super(SharedBoard, self).transact(work, near).chainDeferred(done))
        return done


class Base(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock, self.game = Clock(), FakeGame()
        self.board = SharedBoard(self.clock.seconds)
        self.here, self.there = self.fixture(), self.fixture()
        self.pass_time(2)  # both processes have sent Hello and know each other

    def fixture(self) -> ChatFixture:
        return ChatFixture(clock=self.clock, game=self.game, board=self.board)

    def pass_time(self, seconds: float, *fixtures: ChatFixture) -> None:
        for _ in range(int(seconds)):
            self.clock.advance(1)
            for fixture in fixtures or (self.here, self.there):
                fixture.server.tick()

    def meanwhile(self, *acts: Callable[[], Any]) -> None:
        """Make these calls, and deliver their notifications only after the last call."""
        self.board.slow = waiting = []
        for act in acts:
            act()
        self.board.slow = None
        for news in waiting:
            news()

    def greeted(self, fixture: ChatFixture) -> None:
        """Let the process receive a Hello from the other process."""
        another = self.here if fixture is self.there else self.there
        fixture.server.workers._on_hello(Hello(another.server.workers.name))

    def in_room(self, fixture: ChatFixture, number: int) -> Client:
        client = fixture.bound(number)
        client.join(ROOM)
        client.take_texts()
        return client

    def deafen(self, fixture: ChatFixture) -> Callable[[], None]:
        """Let the process receive no notifications until the returned function is called."""
        listeners, deaf = self.board._listeners, fixture.server.workers
        before = {kind: list(those) for kind, those in listeners.items()}
        for those in listeners.values():
            those[:] = [
                item for item in those if getattr(item, "__self__", 0) not in (deaf, deaf.leases)
            ]
        return lambda: listeners.update(before)

    def occupants(self, fixture: ChatFixture) -> list[str]:
        result = []
        for key in fixture.server.rooms.keys():  # noqa: SIM118
            result += [occupant.session.account for occupant in fixture.server.rooms.occupants(key)]
        return result


class RoomTests(Base):
    def test_all_see_each_other_and_get_every_line_once_in_one_order(self) -> None:
        ann, bob = self.in_room(self.here, 1), self.in_room(self.there, 2)
        self.assertIn(f'/{bob.nick}"', ann.take_texts()[0])
        received: dict[str, list[str]] = {ann.nick: [], bob.nick: []}
        for n in range(3):
            for who in (ann, bob):
                replies = who.say(ROOM, str(n))
                received[who.nick] += replies
                another = bob if who is ann else ann
                received[another.nick] += another.take_texts()
        lines = [[item.partition("from=")[2] for item in them] for them in received.values()]
        self.assertEqual(lines[0], lines[1])
        self.assertEqual(len(lines[0]), 6)

    def test_leaving_a_room_is_seen_in_every_process(self) -> None:
        ann, bob = self.in_room(self.here, 1), self.in_room(self.there, 2)
        ann.take_texts()
        self.assertIn('type="unavailable"', bob.leave(ROOM)[0])
        self.assertIn('type="unavailable"', ann.take_texts()[0])
        self.assertEqual(self.occupants(self.here), self.occupants(self.there))

    def test_leaving_during_an_outage_is_confirmed(self) -> None:
        ann = self.in_room(self.here, 1)
        self.board.away = True
        [reply] = ann.leave(ROOM)
        self.assertIn('type="unavailable"', reply)
        self.assertEqual(self.occupants(self.here), [])

    def test_an_account_has_one_place_in_a_room_over_all_processes(self) -> None:
        ann = self.in_room(self.there, 2)
        first, second = self.here.bound(1, resource(1)), self.there.bound(1, resource(2))
        first.join(ROOM), second.join(ROOM)
        for fixture in (self.here, self.there):
            self.assertEqual(self.occupants(fixture), [ann.account, first.account])
        for client in (first, second, ann):
            client.take_texts()
        ann.say(ROOM, "to the newer of the two")
        self.assertEqual((first.take_texts(), len(second.take_texts())), ([], 1))

    def test_the_first_delivered_of_two_equal_nicknames_wins(self) -> None:
        ann, bob = self.here.bound(1), self.there.bound(2)
        self.patch(room_access, "_nick_fault", lambda *_: None)
        self.board.slow = waiting = []
        ann.join(ROOM, "one name"), bob.join(ROOM, "one name")
        self.board.slow = None
        for act in waiting:
            act()
        self.assertIn('code="110"', "".join(ann.take_texts()))
        self.assertIn("conflict", "".join(bob.take_texts()))
        for fixture in (self.here, self.there):
            self.assertEqual(self.occupants(fixture), [ann.account])

    def test_a_blocked_author_is_not_received_elsewhere(self) -> None:
        ann, bob, cat = (self.in_room(self.here, 1), self.in_room(self.there, 2),
                         self.in_room(self.there, 3))  # fmt: skip
        self.game.block(bob.account, ann.account)
        news = Blocked(bob.account, ann.account)
        self.here.server.on_blocked(news), self.there.server.on_blocked(news)
        for client in (ann, bob, cat):
            client.take_texts()
        ann.say(ROOM, "hi")
        self.assertEqual((bob.take_texts(), len(cat.take_texts())), ([], 1))

    def test_a_line_during_an_outage_is_refused(self) -> None:
        ann = self.in_room(self.here, 1)
        self.board.away = True
        [reply] = ann.say(ROOM, "hi")
        self.assertIn("not-acceptable", reply)
        [refused] = self.here.bound(3).join(ROOM)
        self.assertIn("service-unavailable", refused)
        self.board.away = False
        self.assertIn("hi", ann.say(ROOM, "hi")[-1])


class SeatTests(Base):
    def test_an_account_has_two_sessions_over_all_processes(self) -> None:
        first = self.here.bound(1, resource(1))
        second, third = self.there.bound(1, resource(2)), self.here.bound(1, resource(3))
        self.assertEqual([client.end for client in (first, second, third)], ["replaced", "", ""])

    def test_a_session_has_its_place_before_its_bind_is_answered(
        self,
    ) -> None:
        late = self.here.connect(1, resource(1))
        late.open(), late.auth(), late.open()
        self.board.slow = waiting = []
        self.assertEqual(late.bind(), [])
        self.board.slow = None
        second, third = self.there.bound(1, resource(2)), self.there.bound(1, resource(3))
        for act in waiting:
            act()
        self.assertIn(late.jid, late.take_texts()[-1])
        self.assertEqual([client.end for client in (late, second, third)], ["", "replaced", ""])

    def test_a_session_is_bound_during_an_outage(self) -> None:
        self.board.away = True
        first = self.here.bound(1, resource(1))
        self.assertEqual(first.end, "")
        for fixture, count in ((self.here, 1), (self.there, 0)):
            self.assertEqual(len(fixture.server.workers.seats(first.account)), count)
        self.board.away = False
        self.pass_time(ALIVE_S + 1)
        for fixture in (self.here, self.there):
            self.assertEqual(len(fixture.server.workers.seats(first.account)), 1)
        second, third = self.there.bound(1, resource(2)), self.here.bound(1, resource(3))
        self.assertEqual([client.end for client in (first, second, third)], ["replaced", "", ""])
        for fixture in (self.here, self.there):
            self.assertEqual(len(fixture.server.workers.seats(first.account)), 2)

    def test_a_session_bound_before_any_news_has_its_seat(self) -> None:
        hear = self.deafen(self.here)
        first = self.here.bound(1, resource(1))
        for fixture in (self.here, self.there):
            self.assertEqual(len(fixture.server.workers.seats(first.account)), 1)
        second = self.here.bound(1, resource(1))
        self.assertEqual([first.end, second.end], ["replaced", ""])
        hear()

    def test_a_session_with_a_missed_bind_has_one_seat(self) -> None:
        hear = self.deafen(self.here)
        first = self.here.bound(1, resource(1))
        hear()
        self.here.server.workers._miss()
        self.pass_time(ALIVE_S + 1)
        for fixture in (self.here, self.there):
            self.assertEqual(len(fixture.server.workers.seats(first.account)), 1)

    def test_without_shared_seats_each_process_allows_its_own(self) -> None:
        """Check that the tests above would fail without shared seats."""
        self.patch(workers.Workers, "_on_bound", lambda *_: None)
        self.here, self.there = self.fixture(), self.fixture()
        with self.assertRaises(self.failureException):
            self.test_an_account_has_two_sessions_over_all_processes()

    def test_a_bind_in_another_process_replaces_the_same_resource(self) -> None:
        first, second = self.here.bound(1), self.there.bound(1)
        self.assertEqual([first.end, second.end], ["replaced", ""])

    def test_a_bind_in_another_process_pings_the_other_session(self) -> None:
        first = self.here.bound(1, resource(1))
        first.take_texts()
        self.there.bound(1, resource(2))
        self.assertIn("urn:xmpp:ping", first.take_texts()[0])


class WhisperTests(Base):
    def test_a_whisper_reaches_another_process(self) -> None:
        ann, bob = self.here.bound(1), self.there.bound(2)
        ann.whisper(f"{bob.account.lower()}@{DOMAIN}", "psst")
        [reply] = bob.take_texts()
        self.assertIn("psst", reply)
        self.assertIn(f'to="{bob.jid}"', reply)

    def test_a_whisper_does_not_cross_a_block(self) -> None:
        self.game.block(account(2), account(1))
        ann, bob = self.here.bound(1), self.there.bound(2)
        ann.whisper(f"{bob.account}@{DOMAIN}", "psst")
        self.assertEqual(bob.take_texts(), [])


class LeaseTests(Base):
    def test_the_sessions_of_a_dead_process_are_gone_in_time(self) -> None:
        ann, bob = self.in_room(self.here, 1), self.in_room(self.there, 2)
        ann.take_texts()
        self.pass_time(LEASE_S - 2, self.here)
        self.assertEqual(self.occupants(self.here), [ann.account, bob.account])
        self.pass_time(5, self.here)
        self.assertEqual(self.occupants(self.here), [ann.account])
        self.assertIn('type="unavailable"', ann.take_texts()[0])
        fresh = [self.here.bound(2, resource(n)) for n in (7, 8)]
        self.assertEqual([client.end for client in fresh], ["", ""])

    def test_sessions_of_a_process_without_heartbeat_are_removed(self) -> None:
        bob = self.fixture().bound(2)  # in a process that has sent no heartbeat yet
        seats = self.here.server.workers.seats
        self.assertEqual(len(seats(bob.account)), 1)
        self.pass_time(LEASE_S + 3, self.here)
        self.assertEqual(seats(bob.account), [])

    def test_a_process_with_an_ended_lease_ends_its_sessions(self) -> None:
        ann, bob = self.in_room(self.here, 1), self.in_room(self.there, 2)
        name = self.there.server.workers.name
        hear = self.deafen(self.there)
        self.pass_time(LEASE_S + 3, self.here)  # the other process hangs
        self.assertEqual((self.occupants(self.here), bob.end), ([ann.account], ""))
        hear()
        self.pass_time(4, self.there, self.here)  # and sends heartbeats again
        self.assertEqual((ann.end, bob.end), ("", "lease"))
        self.assertNotEqual(self.there.server.workers.name, name)
        self.assertEqual(self.occupants(self.there), [ann.account])
        again = self.in_room(self.there, 2)
        self.assertEqual(self.occupants(self.here), [ann.account, again.account])
        self.assertEqual(len(self.there.server.workers.seats(bob.account)), 1)

    def test_an_engine_that_was_away_for_long_ends_no_lease(self) -> None:
        ann, bob = self.in_room(self.here, 1), self.in_room(self.there, 2)
        self.board.away = True
        self.pass_time(LEASE_S * 3)
        self.board.away = False
        self.pass_time(LEASE_S)
        self.assertEqual((ann.end, bob.end), ("", ""))
        self.assertEqual(sorted(self.occupants(self.here)), [ann.account, bob.account])

    def test_changes_without_received_news_are_applied_later(self) -> None:
        ann, bob, cat = (self.in_room(self.here, 1), self.in_room(self.there, 2),
                         self.in_room(self.there, 3))  # fmt: skip
        hear = self.deafen(self.there)
        bob.session.end("socket")
        cat.leave(ROOM)
        hear()
        self.there.server.workers._miss()
        self.pass_time(4)
        for fixture in (self.here, self.there):
            self.assertEqual(self.occupants(fixture), [ann.account])
            self.assertEqual(fixture.server.workers.seats(bob.account), [])
        cat.join(ROOM)
        cat.leave(ROOM)
        self.assertEqual(self.occupants(self.here), [ann.account])

    def test_a_later_process_learns_the_occupants(self) -> None:
        ann = self.in_room(self.here, 1)
        late = self.fixture()
        self.pass_time(1, self.here, late)
        self.assertEqual(self.occupants(late), [ann.account])
        self.pass_time(1, self.here, late)
        bob = late.bound(2)
        self.assertIn(f'/{ann.nick}"', bob.join(ROOM)[0])

    def test_an_early_entry_waits_and_receives_every_later_line(self) -> None:
        ann = self.in_room(self.here, 1)
        late = self.fixture()
        bob = late.bound(2)
        self.assertEqual(bob.join(ROOM), [])
        ann.say(ROOM, "before")
        self.assertEqual(bob.say(ROOM, "not yet"), [])
        self.pass_time(2, self.here, late)
        received = "".join(bob.take_texts())
        self.assertIn(f'/{ann.nick}"', received)
        self.assertIn('code="110"', received)
        self.assertNotIn("before", received)
        ann.say(ROOM, "after")
        self.assertIn("after", "".join(bob.take_texts()))

    def test_a_hello_that_was_not_received_back_is_repeated(self) -> None:
        bob = self.in_room(self.there, 2)
        late = self.fixture()
        hear = self.deafen(late)
        self.pass_time(1, late)
        ann = late.bound(1)
        ann.join(ROOM)
        hear()
        self.pass_time(ALIVE_S + 2, late)
        self.assertIn('code="110"', "".join(ann.take_texts()))
        self.assertIn(ann.account, "".join(bob.take_texts()))

    def test_a_waiting_entry_during_an_outage_is_refused(self) -> None:
        late = self.fixture()
        bob = late.bound(2)
        self.board.away = True
        self.assertEqual(bob.join(ROOM), [])
        self.pass_time(1, self.here, late)
        self.assertIn('type="error"', bob.take_texts()[0])

    def test_a_session_that_ended_during_an_outage_is_corrected(self) -> None:
        ann, bob = self.in_room(self.here, 1), self.in_room(self.there, 2)
        self.board.away = True
        bob.session.end("socket")
        self.assertEqual(self.occupants(self.there), [ann.account])
        self.assertEqual(self.occupants(self.here), [ann.account, bob.account])
        self.board.away = False
        self.pass_time(4)
        self.assertEqual(self.occupants(self.here), [ann.account])
        self.assertEqual(self.here.server.workers.seats(bob.account), [])
