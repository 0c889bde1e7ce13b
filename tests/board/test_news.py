"""Numbers of news: what was missed is read or noticed, nobody waits for what never comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field, frozen
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock, deferLater
from twisted.trial.unittest import SynchronousTestCase

from svcserver.board import news
from svcserver.board.engine import BoardAway
from svcserver.board.kinds import encode
from svcserver.board.news import AGAIN_S, TRIES, NewsFeed


@frozen
class Line:
    """Some news."""

    text: str


@define
class ToldEngine:
    """An engine that says only what a test lets it say."""

    space: str = "0"
    away: bool = False
    clock: Clock = field(factory=Clock)
    life: bytes | None = b"0 life 1.1"
    asked: list[Deferred[Any]] = field(factory=list)
    pushed: Callable[[bytes, bytes], None] = field(init=False)
    joined: Callable[[], None] = field(init=False)
    lost: Callable[[], None] = field(init=False)

    def hear(self, pushed: Any, joined: Any, lost: Any) -> None:
        self.pushed, self.joined, self.lost = pushed, joined, lost

    def subscribe(self, channel: bytes) -> None:
        """Nothing to do."""

    def ask(self, *command: Any) -> Deferred[Any]:
        if self.away:
            return fail(BoardAway())
        if command[0] == "GET":
            return succeed(self.life)
        assert command[0] == "LRANGE"
        self.asked.append(Deferred())
        return self.asked[-1]

    def seconds(self) -> float:
        return self.clock.seconds()

    def pause(self, seconds: float) -> Deferred[None]:
        return deferLater(self.clock, seconds)


def said(number: int, text: str = "") -> bytes:
    name = f"{Line.__module__}.{Line.__qualname__}"
    return b"%d %b %b" % (number, name.encode(), encode(Line(text or str(number)), Line))


class Base(SynchronousTestCase):
    def setUp(self) -> None:
        self.engine = ToldEngine()
        engine: Any = self.engine
        self.feed = NewsFeed(engine)
        self.missed = 0
        self.heard: list[str] = []
        self.feed.when_missed(self.miss)
        self.feed.listen(Line, lambda line: self.heard.append(line.text))

    def miss(self) -> None:
        self.missed += 1

    def join(self, *numbers: int) -> None:
        """A connection listens; the engine has these."""
        self.engine.joined()
        self.read(*numbers)

    def read(self, *numbers: int) -> None:
        self.engine.asked.pop().callback([said(one) for one in numbers])

    def arrive(self, *numbers: int) -> None:
        for number in numbers:
            self.engine.pushed(self.feed.channel, said(number))

    def expect(self, heard: str, missed: int = 0) -> None:
        self.assertEqual((self.heard, self.missed), (heard.split(), missed))


class FirstConnectionTests(Base):
    def test_what_was_told_just_before_we_listened_is_not_waited_for(self) -> None:
        self.engine.joined()
        waiting = Deferred.fromCoroutine(self.feed.heard(7))
        later = Deferred.fromCoroutine(self.feed.heard(8))
        self.assertNoResult(waiting)
        self.read(7)
        self.successResultOf(waiting)
        self.assertNoResult(later)
        self.arrive(8)
        self.successResultOf(later)

    def test_what_overtook_the_reading_is_no_gap(self) -> None:
        self.engine.joined()
        self.arrive(6)
        self.read(6, 7)
        self.arrive(7, 8)
        self.expect("6 7 8")

    def test_where_nothing_can_be_read_it_begins_with_what_comes(self) -> None:
        self.engine.away = True
        self.engine.joined()
        self.arrive(7)
        self.engine.clock.pump([AGAIN_S] * TRIES)
        self.arrive(8)
        self.expect("7 8")


class GapTests(Base):
    def test_a_gap_in_a_connection_is_noticed(self) -> None:
        self.join(7)
        self.arrive(8, 9)
        self.expect("8 9")
        self.arrive(11)
        self.expect("8 9 11", missed=1)

    def test_an_engine_that_was_emptied_is_noticed(self) -> None:
        self.join(7)
        self.arrive(8, 1)
        self.expect("8 1", missed=1)
        self.arrive(2, 3)
        self.expect("8 1 2 3", missed=1)

    def test_who_waits_for_its_news_waits_for_those_of_its_new_life(self) -> None:
        self.join(7)
        self.engine.pushed(self.feed.channel, b"0 life 2.2")
        self.arrive(1)
        waiting = Deferred.fromCoroutine(self.feed.heard(2))
        self.assertNoResult(waiting)
        self.arrive(2)
        self.successResultOf(waiting)

    def test_a_strangers_message_stops_no_news(self) -> None:
        self.join(7)
        for message in (
            b"",
            b"x",
            b"x y z",
            b"-1 a b",
            b"1" * 30 + b" a b",
            b"\xff\xfe ",
            b"0x1 a b",
        ):
            self.engine.pushed(self.feed.channel, message)
        self.engine.pushed(self.feed.channel, said(8))
        self.expect("8")

    def test_news_that_cannot_be_read_is_missed(self) -> None:
        self.join(7)
        with_nothing = said(8).partition(b"{")[0] + b"{}"
        self.engine.pushed(self.feed.channel, with_nothing)
        self.expect("", missed=1)


@frozen
class Letter:
    """Some news for those whom it names."""

    text: str
    readers: tuple[str, ...] = ()


class ReaderTests(Base):
    def test_what_is_for_others_is_not_read(self) -> None:
        self.feed.listen(Letter, lambda letter: self.heard.append(letter.text))
        self.feed.reads_as("ann")
        self.join(7)
        found = [("all", ()), ("her", ("bob", "ann")), ("him", ("bob",)), ("hers", ("ann",))]
        for number, (text, readers) in enumerate(found, 8):
            _, told = self.feed.told([Letter(text, readers)])
            self.engine.pushed(self.feed.channel, b"%d %b" % (number, told))
        self.expect("all her hers")
        name = f"{Letter.__module__}.{Letter.__qualname__}@bob"
        self.engine.pushed(self.feed.channel, b"12 %b what nobody could read" % name.encode())
        self.expect("all her hers")


class AwayTests(Base):
    """The connection that listens was away, after 8 and 9 had been heard."""

    def setUp(self) -> None:
        super().setUp()
        self.join(7)
        self.arrive(8, 9)
        self.heard.clear()
        self.engine.lost()

    def test_what_came_meanwhile_is_heard_once_and_in_order(self) -> None:
        self.engine.joined()
        self.arrive(11)  # pushed before the reading is answered, and in it
        self.expect("")
        self.read(8, 9, 10, 11, 12)
        self.arrive(12, 13)  # pushed after it
        self.expect("10 11 12 13")

    def test_of_one_that_was_too_long_to_keep_it_is_told_that_it_was_missed(self) -> None:
        self.engine.joined()
        self.engine.asked.pop().callback([said(9), b"10 ", said(11)])
        self.expect("11", missed=1)
        self.arrive(12)
        self.expect("11 12", missed=1)

    def test_nothing_came_meanwhile(self) -> None:
        self.join(8, 9)
        self.arrive(10)
        self.expect("10")

    def test_who_tells_meanwhile_is_not_answered_before_all_that_is_heard(self) -> None:
        self.engine.joined()
        waiting = Deferred.fromCoroutine(self.feed.heard(11))
        self.assertNoResult(waiting)
        self.read(9, 10, 11)
        self.successResultOf(waiting)
        self.expect("10 11")

    def test_who_missed_much_reads_more(self) -> None:
        self.engine.joined()
        self.read(*range(100, 164))
        self.read(*range(1, 164))
        self.assertEqual(self.heard, [str(one) for one in range(10, 164)])
        self.assertEqual(self.missed, 0)

    def test_more_than_the_engine_keeps_is_missed(self) -> None:
        self.patch(news, "PAGES", (2,))
        self.join(11, 12)
        self.expect("", missed=1)
        self.arrive(13)
        self.expect("13", missed=1)

    def test_the_same_number_proves_nothing(self) -> None:
        """A replica forgot the newest, and others told as many anew before we came back."""
        self.engine.joined()
        self.engine.asked.pop().callback([said(8), said(9, "another"), said(10)])
        self.expect("", missed=1)

    def test_who_heard_nothing_since_goes_on_behind_what_was_read(self) -> None:
        self.join(8, 9, 10)
        self.expect("10")
        for last in (12, 13):
            self.engine.lost()
            self.join(*range(8, last))
        self.expect("10 11 12")

    def test_nor_does_it_lose_its_place_where_the_newest_were_forgotten(self) -> None:
        self.engine.joined()
        self.engine.asked.pop().callback([said(8), said(9, "another")])
        self.engine.lost()
        self.engine.joined()
        self.engine.asked.pop().callback([said(8), said(9, "another"), said(10)])
        self.expect("10", missed=1)

    def test_a_process_that_leaves_nothing_in_the_list_is_noticed(self) -> None:
        """One of the version before tells it so while the workers are restarted in turn."""
        self.join(8, 9, 11)
        self.expect("11", missed=1)

    def test_the_connection_that_asks_may_come_later(self) -> None:
        self.engine.away = True
        self.engine.joined()
        self.arrive(11)
        self.engine.clock.pump([AGAIN_S] * 3)
        self.engine.away = False
        self.engine.clock.advance(AGAIN_S)
        self.read(9, 10, 11)
        self.expect("10 11")

    def test_where_it_does_not_come_what_is_pushed_is_heard_in_the_end(self) -> None:
        self.engine.away = True
        self.engine.joined()
        self.arrive(11)
        self.engine.clock.pump([AGAIN_S] * TRIES)
        self.expect("11", missed=1)
        self.assertEqual(self.engine.clock.getDelayedCalls(), [])

    def test_nor_is_more_held_than_the_engine_keeps(self) -> None:
        self.patch(news, "MOST_LATELY", 2)
        self.engine.joined()
        self.arrive(11, 12)
        self.expect("11 12", missed=1)
        self.read(9, 10, 11, 12)
        self.arrive(13)
        self.expect("11 12 13", missed=1)

    def test_a_connection_that_is_lost_while_it_reads_leaves_it_to_the_next(self) -> None:
        self.engine.joined()
        self.arrive(11)
        self.engine.lost()
        self.engine.joined()
        second = self.engine.asked.pop()
        self.read(9, 10, 11)
        self.expect("")
        second.callback([said(9), said(10), said(11), said(12)])
        self.expect("10 11 12")


class AnewTests(Base):
    """The engine began anew, empty, after 8 and 9 of its life before had been heard."""

    OTHER = b"0 life 2.2"

    def setUp(self) -> None:
        super().setUp()
        self.join(7)
        self.arrive(8, 9)
        self.heard.clear()
        self.engine.lost()

    def rejoin(self, *told: bytes) -> None:
        """Listen to an engine that has told these in its new life."""
        self.engine.life = self.OTHER if told else None
        self.engine.joined()
        self.engine.asked.pop().callback([self.OTHER, *told] if told else [])

    def test_all_that_others_told_before_we_listened_again_is_heard(self) -> None:
        self.rejoin(said(1), said(2))
        self.expect("1 2", missed=1)
        self.arrive(2, 3)  # the second was pushed after the reading, too
        self.expect("1 2 3", missed=1)

    def test_the_same_words_with_the_same_number_prove_nothing(self) -> None:
        self.rejoin(*map(said, range(1, 12)))
        self.assertEqual(self.heard, [str(one) for one in range(1, 12)])
        self.assertEqual(self.missed, 1)

    def test_much_is_read_to_its_beginning(self) -> None:
        told = [said(number) for number in range(1, 100)]
        self.engine.life = self.OTHER
        self.engine.joined()
        self.engine.asked.pop().callback(told[-64:])
        self.engine.asked.pop().callback([self.OTHER, *told])
        self.assertEqual(self.heard, [str(one) for one in range(1, 100)])

    def test_what_has_lost_its_beginning_is_missed(self) -> None:
        self.engine.life = self.OTHER
        self.join(8, 9, 10)
        self.expect("", missed=1)
        self.arrive(11)
        self.expect("11", missed=1)

    def test_the_news_of_one_life_beside_the_name_of_the_next_is_not_heard_again(self) -> None:
        self.engine.life = b"0 life 3.3"
        self.engine.joined()
        self.read_anew(said(8), said(9))
        self.expect("", missed=1)

    def test_where_nothing_was_told_yet_all_is_heard_from_its_beginning(self) -> None:
        self.rejoin()
        self.expect("", missed=1)
        self.engine.pushed(self.feed.channel, self.OTHER)
        self.arrive(1)
        self.expect("1", missed=1)

    def test_nor_is_it_lost_where_the_connection_is_before_it_comes(self) -> None:
        self.rejoin()
        self.engine.lost()
        self.rejoin(said(1))
        self.expect("1", missed=2)

    def test_its_name_is_known_to_who_heard_it(self) -> None:
        self.rejoin()
        self.engine.pushed(self.feed.channel, self.OTHER)
        self.arrive(1, 2)
        self.engine.lost()
        self.rejoin(said(1), said(2), said(3))
        self.expect("1 2 3", missed=1)

    def test_what_was_read_is_not_heard_again_with_its_name(self) -> None:
        self.engine.life = self.OTHER
        self.engine.joined()
        self.engine.pushed(self.feed.channel, self.OTHER)
        self.arrive(1, 2)
        self.engine.asked.pop().callback([self.OTHER, said(1)])
        self.expect("1 2", missed=1)

    def test_who_tells_meanwhile_is_answered_once_that_is_heard(self) -> None:
        self.engine.joined()
        waiting = Deferred.fromCoroutine(self.feed.heard(1))
        self.assertNoResult(waiting)
        self.engine.life = self.OTHER
        self.read_anew(said(1))
        self.successResultOf(waiting)
        self.expect("1", missed=1)

    def read_anew(self, *told: bytes) -> None:
        self.engine.asked.pop().callback([self.OTHER, *told])

    def test_whose_engine_could_not_be_read_before_does_not_know(self) -> None:
        self.engine.away = True
        self.engine.joined()
        self.arrive(5)
        self.engine.clock.pump([AGAIN_S] * TRIES)
        self.engine.lost()
        self.engine.away = False
        self.rejoin(*map(said, range(1, 6)))
        self.expect("5", missed=1)

    def test_one_of_the_version_before_gives_no_name(self) -> None:
        """While the workers are restarted in turn; it is told so, as ever."""
        self.engine.life = None
        self.join(1, 2)
        self.expect("", missed=1)
