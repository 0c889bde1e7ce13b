"""Session events that arrive while the session's process is still announcing the session."""

import orjson
from attrs import asdict, evolve

from svcserver.board.kinds import decode
from svcserver.chat import room_access
from svcserver.chat.events import Entering, Expired, RoomPlace
from svcserver.chat.ghosts import Ghosts
from svcserver.chat.leases import ALIVE_S
from svcserver.chat.pending import HEARD_S
from tests.chat.fixture import DOMAIN
from tests.chat.test_workers import ROOM, Base


class RaceTests(Base):
    """A process lists its sessions while notifications about these sessions are in transit."""

    def test_an_entry_during_an_announcement_counts_everywhere(self) -> None:
        ann, bob = self.in_room(self.here, 1), self.there.bound(2)
        self.meanwhile(lambda: bob.join(ROOM), lambda: self.greeted(self.there))
        self.assertIn('code="110"', "".join(bob.take_texts()))
        for fixture in (self.here, self.there):
            self.assertEqual(self.occupants(fixture), [ann.account, bob.account])
        ann.take_texts()
        bob.say(ROOM, "hello?")
        self.assertIn("hello?", ann.take_texts()[-1])

    def test_a_crowd_entering_during_an_announcement_counts_everywhere(self) -> None:
        self.in_room(self.here, 1)
        crowd = [self.there.bound(n) for n in range(2, 22)]
        enter = [lambda client=client: client.join(ROOM) for client in crowd]
        self.meanwhile(*enter[:10], lambda: self.greeted(self.there), *enter[10:])
        for fixture in (self.here, self.there):
            self.assertEqual(len(self.occupants(fixture)), 21)

    def test_a_nickname_refused_during_an_announcement_enters_nowhere(self) -> None:
        ann, bob = self.here.bound(1), self.there.bound(2)
        self.patch(room_access, "_nick_fault", lambda *_: None)
        self.meanwhile(
            lambda: ann.join(ROOM, "one name"),
            lambda: bob.join(ROOM, "one name"),
            lambda: ann.session.end("socket"),
            lambda: self.greeted(self.there),
        )
        self.assertIn("conflict", "".join(bob.take_texts()))
        for fixture in (self.here, self.there):
            self.assertEqual(self.occupants(fixture), [])
        bob.join(ROOM, "one name")
        for fixture in (self.here, self.there):
            self.assertEqual(self.occupants(fixture), [bob.account])

    def test_a_session_ended_during_an_announcement_keeps_no_seat(self) -> None:
        ann, bob = self.in_room(self.here, 1), self.in_room(self.there, 2)
        self.meanwhile(lambda: bob.session.end("socket"), lambda: self.greeted(self.there))
        for fixture in (self.here, self.there):
            self.assertEqual(fixture.server.workers.seats(bob.account), [])
            self.assertEqual(self.occupants(fixture), [ann.account])
        self.assertEqual(self.here.server.workers.crowd(), (0, 1))

    def test_a_session_that_returns_during_an_announcement_is_present(self) -> None:
        ann, bob = self.in_room(self.here, 1), self.in_room(self.there, 2)
        self.meanwhile(
            lambda: bob.leave(ROOM), lambda: bob.join(ROOM), lambda: self.greeted(self.there)
        )
        for fixture in (self.here, self.there):
            self.assertEqual(self.occupants(fixture)[:1], [ann.account])
        self.assertEqual(self.occupants(self.here), self.occupants(self.there))

    def test_unannounced_session_receives_messages_after_joining(
        self,
    ) -> None:
        ann = self.in_room(self.here, 1)
        self.board.away = True
        bob = self.there.bound(2)
        self.board.away = False
        self.meanwhile(lambda: bob.join(ROOM), lambda: self.greeted(self.there))
        for fixture in (self.here, self.there):
            self.assertEqual(self.occupants(fixture), [ann.account, bob.account])
        ann.take_texts()
        bob.say(ROOM, "hello?")
        self.assertIn("hello?", ann.take_texts()[-1])

    def test_a_session_of_an_expired_process_enters_nothing(self) -> None:
        self.in_room(self.here, 1)
        bob = self.there.bound(2)
        hear = self.deafen(self.there)
        self.here.server.workers.leases.on_expired(Expired(self.there.server.workers.name))
        bob.join(ROOM)
        hear()
        self.assertEqual(self.here.server.workers.crowd(), (0, 1))
        self.assertEqual(len(self.occupants(self.here)), 1)

    def test_an_entry_from_an_earlier_version_is_seen(self) -> None:
        """During a rolling restart, an earlier version's ``Entering`` has a place but no seat."""
        there = self.there.server.workers
        bob = self.there.bound(2)
        place = RoomPlace(bob.session.number, f"{ROOM}@muc.{DOMAIN}", f"x:{bob.account}:y")
        news = {"worker": there.name, "place": asdict(place)}
        self.here.server.workers._on_entering(decode(orjson.dumps(news), Entering))
        self.assertEqual(self.occupants(self.here), [bob.account])

    def test_an_entry_with_missed_news_is_refused_everywhere(self) -> None:
        bob = self.there.bound(2)
        hear = self.deafen(self.there)
        bob.join(ROOM)
        self.assertEqual(self.occupants(self.here), [bob.account])
        hear()
        self.there.server.workers._miss()
        self.assertIn('type="error"', "".join(bob.take_texts()))
        self.pass_time(ALIVE_S + 1)
        self.assertEqual(self.occupants(self.here), [])
        bob.join(ROOM)
        for fixture in (self.here, self.there):
            self.assertEqual(self.occupants(fixture), [bob.account])

    def test_a_line_with_missed_news_is_refused(self) -> None:
        bob = self.in_room(self.there, 2)
        hear = self.deafen(self.there)
        self.assertEqual(bob.say(ROOM, "lost", "m1"), [])
        self.assertEqual(bob.say(ROOM, "next", "m2"), [])  # this line waits for the first line
        hear()
        self.there.server.workers._miss()
        refused, received = bob.take_texts()
        self.assertIn("not-acceptable", refused)
        self.assertIn('id="m1"', refused)
        self.assertIn("next", received)

    def test_a_line_is_refused_after_seconds_without_news(self) -> None:
        bob = self.in_room(self.there, 2)
        self.deafen(self.there)
        bob.say(ROOM, "lost")
        self.pass_time(HEARD_S - 1, self.there)
        self.assertEqual(bob.take_texts(), [])
        self.pass_time(2, self.there)
        self.assertIn("not-acceptable", "".join(bob.take_texts()))

    def test_a_slow_line_is_delivered(self) -> None:
        bob = self.in_room(self.there, 2)
        self.meanwhile(lambda: bob.say(ROOM, "slow"), lambda: self.pass_time(HEARD_S - 1))
        self.assertIn("slow", "".join(bob.take_texts()))
        self.pass_time(HEARD_S + 1)
        self.assertEqual(bob.take_texts(), [])

    def test_without_the_unheard_list_entries_are_removed(self) -> None:
        """Check that the tests above would fail without the list ``unheard`` in ``Here``."""
        correct = Ghosts.correct
        self.patch(Ghosts, "correct", lambda me, news: correct(me, evolve(news, unheard=())))
        with self.assertRaises(self.failureException):
            self.test_an_entry_during_an_announcement_counts_everywhere()
