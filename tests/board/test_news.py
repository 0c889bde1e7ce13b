"""The numbers of news: what was missed is noticed, and nobody waits for what never comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board.news import NewsFeed


@define
class ToldEngine:
    """An engine that says only what a test lets it say."""

    space: str = "0"
    asked: list[Deferred[Any]] = field(factory=list)
    pushed: Callable[[bytes, bytes], None] = field(init=False)
    joined: Callable[[], None] = field(init=False)
    lost: Callable[[], None] = field(init=False)

    def hear(self, pushed: Any, joined: Any, lost: Any) -> None:
        self.pushed, self.joined, self.lost = pushed, joined, lost

    def subscribe(self, channel: bytes) -> None:
        """Nothing to do."""

    def ask(self, *command: Any) -> Deferred[Any]:
        self.asked.append(Deferred())
        return self.asked[-1]


class NewsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.engine = ToldEngine()
        engine: Any = self.engine
        self.feed = NewsFeed(engine)
        self.missed = 0
        self.feed.when_missed(self.miss)

    def miss(self) -> None:
        self.missed += 1

    def join(self, number: int) -> None:
        self.engine.joined()
        self.engine.asked.pop().callback(b"%d" % number)

    def arrive(self, *numbers: int) -> None:
        for number in numbers:
            self.engine.pushed(self.feed.channel, b"%d other {}" % number)

    def test_what_was_told_just_before_we_listened_is_not_waited_for(self) -> None:
        self.engine.joined()
        waiting = Deferred.fromCoroutine(self.feed.heard(7))
        later = Deferred.fromCoroutine(self.feed.heard(8))
        self.assertNoResult(waiting)
        self.engine.asked.pop().callback(b"7")
        self.successResultOf(waiting)
        self.assertNoResult(later)
        self.arrive(8)
        self.successResultOf(later)

    def test_a_gap_is_noticed_in_a_connection_and_between_two(self) -> None:
        self.join(7)
        self.arrive(8, 9)
        self.assertEqual(self.missed, 0)
        self.arrive(11)
        self.assertEqual(self.missed, 1)
        self.engine.lost()
        self.join(12)
        self.assertEqual(self.missed, 2)

    def test_the_same_number_after_a_connection_was_away_proves_nothing(self) -> None:
        """A replica forgot the newest, and others told as many anew before we came back."""
        self.join(7)
        self.arrive(8, 9)
        self.engine.lost()
        self.join(9)
        self.assertEqual(self.missed, 1)
        self.engine.lost()
        self.engine.joined()
        self.arrive(10)  # before the look is answered
        self.assertEqual(self.missed, 2)
        self.engine.asked.pop().callback(b"10")
        self.arrive(11)
        self.assertEqual(self.missed, 2)

    def test_what_overtook_the_look_is_no_gap(self) -> None:
        self.join(7)
        self.arrive(6, 7, 8)
        self.assertEqual(self.missed, 0)

    def test_an_engine_that_was_emptied_is_noticed(self) -> None:
        self.join(7)
        self.arrive(8, 1)
        self.assertEqual(self.missed, 1)
        self.arrive(2, 3)
        self.assertEqual(self.missed, 1)
