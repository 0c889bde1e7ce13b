"""The cost of a log-in does not grow with the number of sessions."""

import sys
from collections.abc import Callable
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.adapter import BACKLOG, SHARED_BACKLOG, ChatFactory
from svcserver.chat.events import Seat
from svcserver.chat.ghosts import Ghost
from svcserver.chat.names import room_of
from svcserver.chat.ports import About
from svcserver.chat.server import SHARED_OCCUPANTS, ChatServer
from tests.chat.fixture import DOMAIN, ChatFixture, Client, account, resource
from tests.chat.test_workers import Base

FEW, MANY = 20, 400
SLACK = 1.02  # a number with more digits takes one more step


def steps(work: Callable[[], object]) -> int:
    """Return the number of Python operations that a call takes."""
    result = 0

    def note(frame: Any, event: str, what: Any) -> Any:
        nonlocal result
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        result += event == "opcode"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
    return result


def fill(fixture: ChatFixture, count: int) -> None:
    """Connect ``count`` more players, who are numbered from 11, to the chat."""
    for number in range(11, 11 + count):
        fixture.game.people[account(number)] = About(f"Player{number}")
        fixture.bound(number)


def connects(fixture: ChatFixture, number: int) -> int:
    """Return the cost of connecting one more session with friends."""
    return steps(lambda: fixture.bound(number).session.end("bye"))


class AloneTests(SynchronousTestCase):
    def cost(self, crowd: int) -> int:
        fixture = ChatFixture()
        connects(fixture, 1)
        fill(fixture, crowd)
        return connects(fixture, 2)

    def test_a_log_in_among_many_takes_as_many_steps_as_among_few(self) -> None:
        self.assertLess(self.cost(MANY), self.cost(FEW) * SLACK)

    def test_a_loop_over_all_sessions_raises_the_measured_cost(self) -> None:
        """Check that the tests above would detect a loop over all sessions."""
        plain = ChatServer.connect

        def connect(server: ChatServer, *rest: Any) -> Any:
            assert not [item for item in server._sessions.values() if item.account == account(1)]
            return plain(server, *rest)

        self.patch(ChatServer, "connect", connect)
        self.assertGreater(self.cost(MANY), self.cost(FEW) * SLACK)


class SharedTests(Base):
    def cost(self, crowd: int) -> int:
        self.setUp()
        connects(self.here, 1)
        for fixture in (self.here, self.there):
            fill(fixture, crowd // 2)
        return connects(self.here, 2)

    def test_the_cost_does_not_grow_over_several_processes(self) -> None:
        self.assertLess(self.cost(MANY), self.cost(FEW) * SLACK)

    def crowd(self, count: int) -> Client:
        """Return a client that will join a room with ``count`` players of another process."""
        room = room_of("General", f"muc.{DOMAIN}", DOMAIN)
        assert room is not None
        for number in range(1_000, 1_000 + count):
            jid = f"{account(number)}@{DOMAIN}/{resource(number)}"
            seat = Seat(number, account(number), resource(number), jid, DOMAIN)
            nick = f"A_long_name_{number}:{account(number)}:{resource(number)}"
            self.here.server.rooms.enter(Ghost(seat), room, nick)
        return self.here.bound(1)

    def test_a_room_of_several_processes_has_a_thousand_occupants(self) -> None:
        ann = self.crowd(SHARED_OCCUPANTS - 1)
        replies = ann.join("General")
        self.assertEqual(len(replies), 1_000)
        self.assertIn('code="110"', replies[-1])
        self.assertLess(sum(map(len, replies)), SHARED_BACKLOG * 2 // 3)
        # this is more than the limit for a client of a single process
        self.assertGreater(sum(map(len, replies)), BACKLOG)
        factory = ChatFactory(self.here.server, self.clock)
        self.assertEqual(factory.backlog, SHARED_BACKLOG)
        [replies] = self.here.bound(2).join("General")
        self.assertIn('type="error"', replies)

    def test_no_stanza_is_built_for_occupants_of_other_processes(self) -> None:
        ann = self.crowd(300)
        few = steps(lambda: ann.join("General"))
        [here] = self.here.server.rooms.here(next(iter(ann.session.in_rooms)))
        self.assertIs(here.session, ann.session)
        self.assertLess(steps(lambda: ann.say("General", "hello")), few / 10)

    def test_every_worker_refuses_an_occupant_over_the_room_limit(self) -> None:
        self.here.server.rooms.max_occupants = self.there.server.rooms.max_occupants = 2
        self.in_room(self.here, 1), self.in_room(self.there, 2)
        for fixture in (self.here, self.there):
            [reply] = fixture.bound(3).join("General")
            self.assertIn('type="error"', reply)
