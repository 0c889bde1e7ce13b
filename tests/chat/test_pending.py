"""Each line that a session published is answered for itself."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.events import Said
from svcserver.chat.pending import HEARD_S, Pending


def line(body: str) -> Said:
    return Said("a-worker", 7, "Guild-1", None, body, ())


class LineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pending = Pending()

    def test_a_line_that_is_heard_is_told_so(self) -> None:
        happened = self.pending.say(line("a"), lambda _: succeed(True), 0.0)
        self.assertNoResult(happened)
        self.pending.resolve(line("a"), is_delivered=True)
        self.assertIs(self.successResultOf(happened), True)

    def test_one_that_is_not_heard_in_time_is_refused(self) -> None:
        happened = self.pending.say(line("a"), lambda _: succeed(True), 0.0)
        self.pending.refuse_lines(HEARD_S)
        self.assertIs(self.successResultOf(happened), False)

    def test_a_line_that_is_heard_late_answers_for_no_later_one(self) -> None:
        first = self.pending.say(line("a"), lambda _: succeed(True), 0.0)
        self.pending.refuse_lines(HEARD_S)
        self.assertIs(self.successResultOf(first), False)
        telling: Deferred[bool] = Deferred()
        second = self.pending.say(line("b"), lambda _: telling, HEARD_S)
        self.pending.resolve(line("a"), is_delivered=True)
        telling.callback(False)
        self.assertIs(self.successResultOf(second), False)

    def test_who_ends_hears_nothing_more(self) -> None:
        happened = self.pending.say(line("a"), lambda _: succeed(True), 0.0)
        self.pending.forget(7)
        self.assertIs(self.successResultOf(happened), False)
