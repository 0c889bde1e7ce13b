"""One account's requests run in turn; other accounts' requests do not wait for them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from svcserver.db.turns import Turns
from svcserver.kernel.refusals import Conflict, TooMany


class TurnsTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.turns = Turns(most=2)
        self.running: list[tuple[str, Deferred[int]]] = []

    def ask(self, key: str) -> Deferred[int]:
        def job() -> Deferred[int]:
            done: Deferred[int] = Deferred()
            self.running.append((key, done))
            return done

        return Deferred.fromCoroutine(self.turns.run(key, job))

    def begun(self) -> list[str]:
        return [key for key, _ in self.running]

    def end(self, at: int, result: Any) -> None:
        self.running[at][1].callback(result)

    def test_one_account_runs_one_job_at_a_time_beside_other_accounts(self) -> None:
        first, second, third = self.ask("a"), self.ask("a"), self.ask("b")
        self.assertEqual(self.begun(), ["a", "b"])
        self.end(0, 7)
        self.assertEqual(self.successResultOf(first), 7)
        self.assertEqual(self.begun(), ["a", "b", "a"])
        self.end(2, 8)
        self.end(1, 9)
        self.assertEqual((self.successResultOf(second), self.successResultOf(third)), (8, 9))
        self.assertEqual(len(self.turns), 0)

    def test_a_job_beyond_the_queue_limit_is_refused_with_a_retry_time(self) -> None:
        for _ in range(3):
            self.ask("a")
        why = self.failureResultOf(self.ask("a"), TooMany).value
        self.assertEqual(why.retry_after_s, 1)
        self.assertNoResult(self.ask("b"))

    def test_a_job_cancelled_while_it_waits_never_runs(self) -> None:
        self.ask("a")
        gone, stays = self.ask("a"), self.ask("a")
        gone.cancel()
        self.failureResultOf(gone, CancelledError)
        self.end(0, 1)
        self.assertEqual(len(self.running), 2)
        self.end(1, 2)
        self.assertEqual(self.successResultOf(stays), 2)
        self.assertEqual(len(self.turns), 0)

    def test_a_cancelled_running_job_holds_its_turn_until_it_ends(self) -> None:
        gone = self.ask("a")
        self.ask("a")
        gone.cancel()
        self.failureResultOf(gone, CancelledError)
        self.assertEqual(len(self.running), 1)
        self.end(0, 1)
        self.assertEqual(len(self.running), 2)

    def test_a_refusal_passes_the_turn_on(self) -> None:
        refused, after = self.ask("a"), self.ask("a")
        self.running[0][1].errback(Conflict())
        self.failureResultOf(refused, Conflict)
        self.end(1, 2)
        self.assertEqual(self.successResultOf(after), 2)
