"""When a process that has just begun knows who is in the rooms of the others."""

from __future__ import annotations

from twisted.internet.defer import succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.events import Here
from svcserver.chat.hello import ANSWERED_S, MOST_S, Arriving

TO_COME, WHOLE = Here("A", (), (), until=0), Here("A", (), ())
FIRST, LAST = Here("A", (), (), until=9), Here("A", (), (), since=9)


class ArrivingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.arriving = Arriving(self.clock.seconds)
        self.entered: list[str] = []

    def enters(self, *news: Here) -> bool:
        """Return whether a waiting session enters after our Hello and this news."""
        self.arriving.greeted()
        self.arriving.enter(lambda: succeed(bool(self.entered.append("Ann") or True)))
        for item in news:
            self.arriving.answered(item)
        self.clock.advance(ANSWERED_S)
        self.arriving.check()
        return bool(self.entered)

    def test_an_answer_in_one_or_in_pieces_is_waited_for(self) -> None:
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

    def test_an_ended_process_and_a_slow_one_are_not_awaited(self) -> None:
        self.assertFalse(self.enters(TO_COME))
        self.arriving.gone("A")
        self.arriving.check()
        self.assertEqual(self.entered, ["Ann"])
        self.setUp()
        self.assertFalse(self.enters(TO_COME))
        self.clock.advance(MOST_S)
        self.arriving.check()
        self.assertEqual(self.entered, ["Ann"])
