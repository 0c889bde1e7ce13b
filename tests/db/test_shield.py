"""A client that disconnects cancels only its own waiting; the work continues."""

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.shield import shielded
from svcserver.kernel.refusals import Conflict


class FinishesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.commit: Deferred[int] = Deferred()
        self.signals: list[int] = []

    @shielded
    async def act(self, more: int) -> int:
        committed = await self.commit
        self.signals.append(committed + more)
        return committed + more

    def test_shielded_work_returns_its_result(self) -> None:
        waiting = Deferred.fromCoroutine(self.act(1))
        self.assertNoResult(waiting)
        self.commit.callback(7)
        self.assertEqual(self.successResultOf(waiting), 8)

    def test_shielded_work_raises_its_refusal(self) -> None:
        waiting = Deferred.fromCoroutine(self.act(1))
        self.commit.errback(Conflict())
        self.failureResultOf(waiting, Conflict)

    def test_a_signal_is_sent_after_the_commit_if_the_client_left(self) -> None:
        waiting = Deferred.fromCoroutine(self.act(1))
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.commit.callback(7)
        self.assertEqual(self.signals, [8])

    def test_after_the_client_left_a_defect_is_logged_no_refusal(self) -> None:
        for why, logged in ((Conflict(), 0), (ZeroDivisionError(), 1)):
            self.commit = Deferred()
            waiting = Deferred.fromCoroutine(self.act(1))
            waiting.cancel()
            self.failureResultOf(waiting, CancelledError)
            self.commit.errback(why)
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), logged)
