"""The counters of ``restart_players.py``, which must count every duplicated or lost line."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.players.chat import Line
from tests.live.restart_players import PlaySession, Spoken


class Someone:
    """A player in the room, and the connection over which the player received the line."""

    room = "City-0"
    connection: object = "first"


class CountingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.ann, self.bob, self.cat = Someone(), Someone(), Someone()

    def counted(self, *messages: Someone, strict: bool = True) -> tuple[int, int, int]:
        """Let each of these players receive ann's line; return the counts of the session's report.

        They are the numbers of lines that were echoed, doubled and missing.
        """
        nothing: Any = None
        session = PlaySession(nothing, nothing, 1.0, 1.0, strict, nothing)
        people: list[Any] = [self.ann, self.bob, self.cat]
        session._lines["line 0"] = Spoken(people[0], dict.fromkeys(people, "first"))
        for entry in messages:
            listener: Any = entry
            session.received_by(listener, Line(False, "City-0", "Ann", "line 0"))
        session._count()
        return session.report.echoed, session.report.doubled, session.report.missing

    def test_a_line_that_all_receive_once_counts_once(self) -> None:
        self.assertEqual(self.counted(self.ann, self.bob, self.cat), (1, 0, 0))

    def test_a_line_that_a_listener_receives_twice_counts_as_doubled(self) -> None:
        self.assertEqual(self.counted(self.ann, self.bob, self.bob, self.cat), (1, 1, 0))

    def test_an_echoed_line_that_a_listener_misses_counts_as_missing(self) -> None:
        self.assertEqual(self.counted(self.ann, self.bob), (1, 0, 1))

    def test_a_line_that_was_not_echoed_never_counts_as_missing(self) -> None:
        self.assertEqual(self.counted(self.bob), (0, 0, 0))

    def test_a_listener_whose_chat_ended_counts_where_the_count_is_strict(self) -> None:
        self.cat.connection = "second"
        self.assertEqual(self.counted(self.ann, self.bob), (1, 0, 1))
        self.assertEqual(self.counted(self.ann, self.bob, strict=False), (1, 0, 0))
