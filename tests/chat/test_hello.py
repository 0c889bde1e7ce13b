"""``Hello`` and ``Here``: how a starting process learns the other processes' sessions.

The other processes answer in pieces; a session that enters a room waits until all answers have
arrived.
"""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from twisted.internet.defer import succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.kinds import encode
from svcserver.chat import hello, pending
from svcserver.chat.events import PIECE, Here
from svcserver.chat.hello import ANSWERED_S, MOST_S, Answers, Arriving
from svcserver.chat.leases import ALIVE_S
from svcserver.chat.session import Session
from tests.chat.fixture import ChatFixture, account
from tests.chat.test_workers import ROOM, Base

MOST_BYTES = 300_000  # of one piece
TO_COME, WHOLE = Here("A", (), (), until=0), Here("A", (), ())
FIRST, LAST = Here("A", (), (), until=9), Here("A", (), (), since=9)


class Names:
    """A process; the test fills its list of sessions with copies of a single session."""

    def __init__(self, fixture: ChatFixture) -> None:
        self.workers = fixture.server.workers
        assert self.workers is not None
        self.session = fixture.bound(1).session

    def sit_down(self, count: int) -> None:
        mine: dict[int, Session] = self.workers._mine
        for number in range(1_000, 1_000 + count):
            mine[number] = self.session


class AnswerTests(Base):
    def setUp(self) -> None:
        super().setUp()
        self.answers: list[Here] = []
        self.board.listen(Here, self.answers.append)

    def crowd(self) -> int:
        """Add sessions of one process to a room, and make the pieces of an answer small."""
        for module in (pending, hello):
            patching = patch.object(module, "PIECE", 4)
            patching.start()
            self.addCleanup(patching.stop)
        for number in range(1, 31):
            self.in_room(self.here, number)
        return 30

    def late(self) -> ChatFixture:
        fixture = self.fixture()
        self.pass_time(1, self.here, self.there, fixture)
        return fixture

    def test_a_new_process_learns_all_sessions_in_pieces(self) -> None:
        count = self.crowd()
        late = self.late()
        self.assertEqual(len(self.occupants(late)), count)
        mine = [item for item in self.answers if item.seats]
        self.assertEqual([len(item.seats) for item in mine], [4] * 7 + [2])
        self.assertEqual({item.readers for item in mine}, {(late.server.workers.name,)})

    def test_changes_between_two_pieces_are_correct_everywhere(self) -> None:
        """One player leaves and two players join between two pieces of an answer."""
        self.crowd()
        late, bob = self.fixture(), self.here.bound(31)
        first, *_, last, _ = self.here.server._sessions.values()
        queue: list[Callable[[], None]] = []
        self.board.slow = queue
        self.pass_time(1, late)
        steps = 0
        while queue:
            queue.pop(0)()
            steps += 1
            if steps == 6:
                first.end("socket")
                last.end("socket")
                bob.join(ROOM)
        self.board.slow = None
        self.pass_time(ALIVE_S * 3, self.here, self.there, late)
        result = sorted(self.occupants(self.here))
        self.assertEqual(len(result), 29)
        for fixture in (late, self.there):
            self.assertEqual(sorted(self.occupants(fixture)), result)

    def test_processes_that_ask_at_once_get_one_common_answer(self) -> None:
        self.crowd()
        workers = self.here.server.workers
        workers._answers.answer("first")
        before = len(self.answers)
        for number in range(5):
            workers._answers.answer(f"asker {number}")
        to_come = self.answers[before:]
        self.assertTrue(all(item.until == 0 and not item.seats for item in to_come))
        self.pass_time(ALIVE_S - 1)
        self.assertEqual(len(self.answers), before + 5)
        self.pass_time(2)
        later = self.answers[before + 5 :]
        self.assertEqual(sum(len(item.seats) for item in later), 30)
        self.assertEqual({item.readers for item in later}, {tuple(f"asker {n}" for n in range(5))})

    def test_a_process_answered_later_enters_rooms_after_that(self) -> None:
        self.crowd()
        self.here.server.workers._answers.answer("another")
        late = self.late()
        bob = late.bound(31)
        self.assertEqual(bob.join(ROOM), [])
        self.assertEqual(self.occupants(late), [])
        self.pass_time(ALIVE_S + 1, self.here, self.there, late)
        self.assertIn('code="110"', "".join(bob.take_texts()))
        self.assertEqual(len(self.occupants(late)), 31)

    def test_seven_thousand_sessions_are_sent_in_small_pieces(self) -> None:
        names = Names(self.here)
        names.sit_down(7_000)
        queue: list[Callable[[], None]] = []
        self.board.slow = queue
        self.greeted(self.here)
        pieces = 0
        while queue:
            self.assertEqual(len(queue), 1)
            queue.pop(0)()
            pieces += 1
        self.board.slow = None
        self.assertEqual(pieces, 7_001 // PIECE + 1)
        self.assertEqual(sum(len(item.seats) for item in self.answers), 7_001)
        self.assertLess(max(len(encode(item, Here)) for item in self.answers), MOST_BYTES)

    def test_after_a_failed_answer_the_next_answer_is_attempted(self) -> None:
        failing: list[Any] = []

        def fails(here: Here) -> Any:
            failing.append(here)
            raise RuntimeError("a defect")

        workers = self.here.server.workers
        news = Answers(self.clock.seconds, fails, workers._here)
        news.answer("one")
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.pass_time(ALIVE_S)
        news.answer("other")
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertEqual(len(failing), 2)

    def test_an_answer_to_another_process_is_ignored(self) -> None:
        self.in_room(self.here, 1)
        self.here.server.workers._answers.answer("another")
        self.assertEqual(len(self.there.server.workers.seats(account(1))), 1)


class ArrivingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.arriving = Arriving(self.clock.seconds)
        self.entered: list[str] = []

    def enters(self, *news: Here) -> bool:
        """Return whether a waiting session enters the room after our Hello and the answers."""
        self.arriving.greeted()
        self.arriving.enter(lambda: succeed(bool(self.entered.append("Ann") or True)))
        for item in news:
            self.arriving.answered(item)
        self.clock.advance(ANSWERED_S)
        self.arriving.check()
        return bool(self.entered)

    def test_an_answer_in_one_or_several_pieces_is_awaited(self) -> None:
        for news, enters in (
            ((), True),
            ((WHOLE,), True),
            ((TO_COME,), False),
            ((FIRST,), False),
            ((FIRST, LAST), True),
            ((TO_COME, FIRST, LAST), True),
        ):
            self.setUp()
            self.assertEqual(self.enters(*news), enters, news)

    def test_the_end_of_an_answer_to_others_is_not_the_end_of_ours(self) -> None:
        self.assertFalse(self.enters(TO_COME, LAST))
        for item in (FIRST, LAST):
            self.arriving.answered(item)
        self.arriving.check()
        self.assertEqual(self.entered, ["Ann"])

    def test_answers_before_our_hello_do_not_count(self) -> None:
        self.arriving.answered(FIRST)
        self.assertFalse(self.enters(TO_COME, LAST))

    def test_ended_and_slow_processes_are_not_awaited(self) -> None:
        self.assertFalse(self.enters(TO_COME))
        self.arriving.gone("A")
        self.arriving.check()
        self.assertEqual(self.entered, ["Ann"])
        self.setUp()
        self.assertFalse(self.enters(TO_COME))
        self.clock.advance(MOST_S)
        self.arriving.check()
        self.assertEqual(self.entered, ["Ann"])
