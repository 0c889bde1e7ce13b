"""Numbered notifications: a missed notification is read later or reported; waits are limited."""

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
    """An example notification."""

    text: str


@define
class FakeEngine:
    """An engine whose answers the test sets."""

    space: str = "0"
    away: bool = False
    clock: Clock = field(factory=Clock)
    life: bytes | None = b"0 life 1.1"
    reads: list[Deferred[Any]] = field(factory=list)
    pushed: Callable[[bytes, bytes], None] = field(init=False)
    joined: Callable[[], None] = field(init=False)
    left: Callable[[], None] = field(init=False)

    def on_messages(self, pushed: Any, joined: Any, left: Any) -> None:
        self.pushed, self.joined, self.left = pushed, joined, left

    def subscribe(self, channel: bytes) -> None:
        """Do nothing."""

    def send_command(self, *command: Any) -> Deferred[Any]:
        if self.away:
            return fail(BoardAway())
        if command[0] == "GET":
            return succeed(self.life)
        assert command[0] == "LRANGE"
        self.reads.append(Deferred())
        return self.reads[-1]

    def seconds(self) -> float:
        return self.clock.seconds()

    def pause(self, seconds: float) -> Deferred[None]:
        return deferLater(self.clock, seconds)


def message(number: int, text: str = "") -> bytes:
    name = f"{Line.__module__}.{Line.__qualname__}"
    return b"%d %b %b" % (number, name.encode(), encode(Line(text or str(number)), Line))


class Base(SynchronousTestCase):
    def setUp(self) -> None:
        self.engine = FakeEngine()
        engine: Any = self.engine
        self.feed = NewsFeed(engine)
        self.missed = 0
        self.received: list[str] = []
        self.feed.when_missed(self.miss)
        self.feed.listen(Line, lambda line: self.received.append(line.text))

    def miss(self) -> None:
        self.missed += 1

    def join(self, *numbers: int) -> None:
        """Simulate a new subscription; the engine's list holds messages with these numbers."""
        self.engine.joined()
        self.read(*numbers)

    def read(self, *numbers: int) -> None:
        self.engine.reads.pop().callback([message(number) for number in numbers])

    def arrive(self, *numbers: int) -> None:
        for number in numbers:
            self.engine.pushed(self.feed.channel, message(number))

    def expect(self, received: str, missed: int = 0) -> None:
        self.assertEqual((self.received, self.missed), (received.split(), missed))


class FirstConnectionTests(Base):
    def test_news_sent_before_the_subscription_is_not_awaited(self) -> None:
        self.engine.joined()
        waiting = Deferred.fromCoroutine(self.feed.delivered(7))
        later = Deferred.fromCoroutine(self.feed.delivered(8))
        self.assertNoResult(waiting)
        self.read(7)
        self.successResultOf(waiting)
        self.assertNoResult(later)
        self.arrive(8)
        self.successResultOf(later)

    def test_news_received_during_the_read_is_no_gap(self) -> None:
        self.engine.joined()
        self.arrive(6)
        self.read(6, 7)
        self.arrive(7, 8)
        self.expect("6 7 8")

    def test_if_the_read_fails_delivery_starts_with_received_news(self) -> None:
        self.engine.away = True
        self.engine.joined()
        self.arrive(7)
        self.engine.clock.pump([AGAIN_S] * TRIES)
        self.arrive(8)
        self.expect("7 8")


class GapTests(Base):
    def test_a_gap_in_the_numbers_is_reported(self) -> None:
        self.join(7)
        self.arrive(8, 9)
        self.expect("8 9")
        self.arrive(11)
        self.expect("8 9 11", missed=1)

    def test_an_emptied_engine_is_reported(self) -> None:
        self.join(7)
        self.arrive(8, 1)
        self.expect("8 1", missed=1)
        self.arrive(2, 3)
        self.expect("8 1 2 3", missed=1)

    def test_waiting_continues_in_the_engines_new_life(self) -> None:
        self.join(7)
        self.engine.pushed(self.feed.channel, b"0 life 2.2")
        self.arrive(1)
        waiting = Deferred.fromCoroutine(self.feed.delivered(2))
        self.assertNoResult(waiting)
        self.arrive(2)
        self.successResultOf(waiting)

    def test_an_invalid_message_stops_no_news(self) -> None:
        self.join(7)
        for invalid in (
            b"",
            b"x",
            b"x y z",
            b"-1 a b",
            b"1" * 30 + b" a b",
            b"\xff\xfe ",
            b"0x1 a b",
        ):
            self.engine.pushed(self.feed.channel, invalid)
        self.engine.pushed(self.feed.channel, message(8))
        self.expect("8")

    def test_news_that_cannot_be_decoded_is_reported_as_missed(self) -> None:
        self.join(7)
        with_nothing = message(8).partition(b"{")[0] + b"{}"
        self.engine.pushed(self.feed.channel, with_nothing)
        self.expect("", missed=1)


@frozen
class Letter:
    """An example notification for named recipients."""

    text: str
    readers: tuple[str, ...] = ()


class ReaderTests(Base):
    def test_news_for_other_readers_is_not_decoded(self) -> None:
        self.feed.listen(Letter, lambda letter: self.received.append(letter.text))
        self.feed.reads_as("ann")
        self.join(7)
        letters = [("all", ()), ("her", ("bob", "ann")), ("him", ("bob",)), ("hers", ("ann",))]
        for number, (text, readers) in enumerate(letters, 8):
            _, letter = self.feed.commit_arguments([Letter(text, readers)])
            self.engine.pushed(self.feed.channel, b"%d %b" % (number, letter))
        self.expect("all her hers")
        name = f"{Letter.__module__}.{Letter.__qualname__}@bob"
        self.engine.pushed(self.feed.channel, b"12 %b what nobody could read" % name.encode())
        self.expect("all her hers")


class AwayTests(Base):
    """The subscription is lost after messages 8 and 9 have arrived."""

    def setUp(self) -> None:
        super().setUp()
        self.join(7)
        self.arrive(8, 9)
        self.received.clear()
        self.engine.left()

    def test_missed_news_is_delivered_once_and_in_order(self) -> None:
        self.engine.joined()
        self.arrive(11)  # pushed before the list arrives, and also in the list
        self.expect("")
        self.read(8, 9, 10, 11, 12)
        self.arrive(12, 13)  # pushed after the list was read
        self.expect("10 11 12 13")

    def test_news_pushed_before_the_rejoin_hides_no_earlier_news(self) -> None:
        self.arrive(11)  # the subscription to another channel is not yet confirmed
        self.expect("")
        self.join(8, 9, 10, 11)
        self.expect("10 11")

    def test_a_message_too_long_to_keep_is_reported_as_missed(self) -> None:
        self.engine.joined()
        self.engine.reads.pop().callback([message(9), b"10 ", message(11)])
        self.expect("11", missed=1)
        self.arrive(12)
        self.expect("11 12", missed=1)

    def test_without_missed_news_nothing_is_delivered(self) -> None:
        self.join(8, 9)
        self.arrive(10)
        self.expect("10")

    def test_waiting_during_the_read_ends_after_its_delivery(self) -> None:
        self.engine.joined()
        waiting = Deferred.fromCoroutine(self.feed.delivered(11))
        self.assertNoResult(waiting)
        self.read(9, 10, 11)
        self.successResultOf(waiting)
        self.expect("10 11")

    def test_more_is_read_if_much_was_missed(self) -> None:
        self.engine.joined()
        self.read(*range(100, 164))
        self.read(*range(1, 164))
        self.assertEqual(self.received, [str(number) for number in range(10, 164)])
        self.assertEqual(self.missed, 0)

    def test_more_news_than_the_list_keeps_is_reported_as_missed(self) -> None:
        self.patch(news, "PAGES", (2,))
        self.join(11, 12)
        self.expect("", missed=1)
        self.arrive(13)
        self.expect("13", missed=1)

    def test_the_same_number_with_another_text_is_another_message(self) -> None:
        """A replica took over without the newest messages, whose numbers were then used again."""
        self.engine.joined()
        self.engine.reads.pop().callback([message(8), message(9, "another"), message(10)])
        self.expect("", missed=1)

    def test_a_second_reconnect_resumes_after_the_first_read(self) -> None:
        self.join(8, 9, 10)
        self.expect("10")
        for last in (12, 13):
            self.engine.left()
            self.join(*range(8, last))
        self.expect("10 11 12")

    def test_a_reconnect_after_lost_news_resumes_at_the_new_place(self) -> None:
        self.engine.joined()
        self.engine.reads.pop().callback([message(8), message(9, "another")])
        self.engine.left()
        self.engine.joined()
        self.engine.reads.pop().callback([message(8), message(9, "another"), message(10)])
        self.expect("10", missed=1)

    def test_a_gap_in_the_list_is_reported(self) -> None:
        """During a rolling upgrade, an older version publishes without extending the list."""
        self.join(8, 9, 11)
        self.expect("11", missed=1)

    def test_the_command_connection_may_come_later(self) -> None:
        self.engine.away = True
        self.engine.joined()
        self.arrive(11)
        self.engine.clock.pump([AGAIN_S] * 3)
        self.engine.away = False
        self.engine.clock.advance(AGAIN_S)
        self.read(9, 10, 11)
        self.expect("10 11")

    def test_without_a_command_connection_held_news_is_delivered(self) -> None:
        self.engine.away = True
        self.engine.joined()
        self.arrive(11)
        self.engine.clock.pump([AGAIN_S] * TRIES)
        self.expect("11", missed=1)
        self.assertEqual(self.engine.clock.getDelayedCalls(), [])

    def test_no_more_is_held_than_the_list_keeps(self) -> None:
        self.patch(news, "MOST_LATELY", 2)
        self.engine.joined()
        self.arrive(11, 12)
        self.expect("11 12", missed=1)
        self.read(9, 10, 11, 12)
        self.arrive(13)
        self.expect("11 12 13", missed=1)

    def test_a_connection_lost_while_reading_delivers_nothing(self) -> None:
        self.engine.joined()
        self.arrive(11)
        self.engine.left()
        self.engine.joined()
        second = self.engine.reads.pop()
        self.read(9, 10, 11)
        self.expect("")
        second.callback([message(9), message(10), message(11), message(12)])
        self.expect("10 11 12")


class AnewTests(Base):
    """The engine restarts without data after messages 8 and 9 of its previous run have arrived."""

    NEW_LIFE = b"0 life 2.2"

    def setUp(self) -> None:
        super().setUp()
        self.join(7)
        self.arrive(8, 9)
        self.received.clear()
        self.engine.left()

    def rejoin(self, *messages: bytes) -> None:
        """Subscribe to the restarted engine, whose list holds these messages."""
        self.engine.life = self.NEW_LIFE if messages else None
        self.engine.joined()
        self.engine.reads.pop().callback([self.NEW_LIFE, *messages] if messages else [])

    def test_all_news_of_the_new_life_is_delivered(self) -> None:
        self.rejoin(message(1), message(2))
        self.expect("1 2", missed=1)
        self.arrive(2, 3)  # message 2 was in the list, and was also pushed afterwards
        self.expect("1 2 3", missed=1)

    def test_equal_messages_of_another_life_are_new(self) -> None:
        self.rejoin(*map(message, range(1, 12)))
        self.assertEqual(self.received, [str(number) for number in range(1, 12)])
        self.assertEqual(self.missed, 1)

    def test_a_long_new_life_is_read_from_its_start(self) -> None:
        messages = [message(number) for number in range(1, 100)]
        self.engine.life = self.NEW_LIFE
        self.engine.joined()
        self.engine.reads.pop().callback(messages[-64:])
        self.engine.reads.pop().callback([self.NEW_LIFE, *messages])
        self.assertEqual(self.received, [str(number) for number in range(1, 100)])

    def test_a_new_life_without_its_start_is_reported_as_missed(self) -> None:
        self.engine.life = self.NEW_LIFE
        self.join(8, 9, 10)
        self.expect("", missed=1)
        self.arrive(11)
        self.expect("11", missed=1)

    def test_a_list_of_the_former_life_is_not_delivered_again(self) -> None:
        self.engine.life = b"0 life 3.3"
        self.engine.joined()
        self.read_anew(message(8), message(9))
        self.expect("", missed=1)

    def test_a_new_life_without_news_is_delivered_from_its_start(self) -> None:
        self.rejoin()
        self.expect("", missed=1)
        self.engine.pushed(self.feed.channel, self.NEW_LIFE)
        self.arrive(1)
        self.expect("1", missed=1)

    def test_a_lost_connection_to_a_new_life_loses_no_news(self) -> None:
        self.rejoin()
        self.engine.left()
        self.rejoin(message(1))
        self.expect("1", missed=2)

    def test_a_received_name_of_a_life_is_remembered(self) -> None:
        self.rejoin()
        self.engine.pushed(self.feed.channel, self.NEW_LIFE)
        self.arrive(1, 2)
        self.engine.left()
        self.rejoin(message(1), message(2), message(3))
        self.expect("1 2 3", missed=1)

    def test_news_received_with_its_name_is_delivered_once(self) -> None:
        self.engine.life = self.NEW_LIFE
        self.engine.joined()
        self.engine.pushed(self.feed.channel, self.NEW_LIFE)
        self.arrive(1, 2)
        self.engine.reads.pop().callback([self.NEW_LIFE, message(1)])
        self.expect("1 2", missed=1)

    def test_news_pushed_before_the_rejoin_is_delivered_once(self) -> None:
        self.engine.pushed(self.feed.channel, message(1))
        self.rejoin(message(1), message(2))
        self.expect("1 2", missed=1)

    def test_waiting_ends_once_the_new_life_is_read(self) -> None:
        self.engine.joined()
        waiting = Deferred.fromCoroutine(self.feed.delivered(1))
        self.assertNoResult(waiting)
        self.engine.life = self.NEW_LIFE
        self.read_anew(message(1))
        self.successResultOf(waiting)
        self.expect("1", missed=1)

    def read_anew(self, *messages: bytes) -> None:
        self.engine.reads.pop().callback([self.NEW_LIFE, *messages])

    def test_after_a_failed_read_a_new_life_is_unknown(self) -> None:
        self.engine.away = True
        self.engine.joined()
        self.arrive(5)
        self.engine.clock.pump([AGAIN_S] * TRIES)
        self.engine.left()
        self.engine.away = False
        self.rejoin(*map(message, range(1, 6)))
        self.expect("5", missed=1)

    def test_an_engine_without_a_name_is_reported_as_missed(self) -> None:
        """If the engine has no run id, as in some rolling upgrades, messages count as missed."""
        self.engine.life = None
        self.join(1, 2)
        self.expect("", missed=1)
