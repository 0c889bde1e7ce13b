"""Each line that a session published is acknowledged separately."""

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.events import Said
from svcserver.chat.pending import HEARD_S, Pending


def line(body: str) -> Said:
    return Said("a-worker", 7, "Guild-1", None, body, ())


class LineTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.pending = Pending()

    def test_a_delivered_line_fires_true(self) -> None:
        happened = self.pending.publish_line(line("a"), lambda _: succeed(True), 0.0)
        self.assertNoResult(happened)
        self.pending.resolve(line("a"), is_delivered=True)
        self.assertIs(self.successResultOf(happened), True)

    def test_a_line_without_delivery_in_time_is_refused(self) -> None:
        happened = self.pending.publish_line(line("a"), lambda _: succeed(True), 0.0)
        self.pending.refuse_lines(HEARD_S)
        self.assertIs(self.successResultOf(happened), False)

    def test_a_late_delivery_does_not_resolve_a_later_line(self) -> None:
        first = self.pending.publish_line(line("a"), lambda _: succeed(True), 0.0)
        self.pending.refuse_lines(HEARD_S)
        self.assertIs(self.successResultOf(first), False)
        telling: Deferred[bool] = Deferred()
        second = self.pending.publish_line(line("b"), lambda _: telling, HEARD_S)
        self.pending.resolve(line("a"), is_delivered=True)
        telling.callback(False)
        self.assertIs(self.successResultOf(second), False)

    def test_an_ended_session_resolves_its_line(self) -> None:
        happened = self.pending.publish_line(line("a"), lambda _: succeed(True), 0.0)
        self.pending.forget(7)
        self.assertIs(self.successResultOf(happened), False)
