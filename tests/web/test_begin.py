"""Coroutines that start immediately: their results, exceptions and cancellation."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.web.coroutines import start_coroutine


async def add(*parts: Deferred[int]) -> int:
    total = 0
    for part in parts:
        try:
            total += await part
        except KeyError:
            total += 100
    return total


class BeginTests(SynchronousTestCase):
    def test_a_coroutine_without_a_wait_returns_its_result_at_once(self) -> None:
        self.assertEqual(start_coroutine(add(succeed(1), succeed(2))), 3)

    def test_an_error_before_the_first_wait_is_raised(self) -> None:
        async def fail() -> None:
            raise KeyError("now")

        with self.assertRaises(KeyError):
            start_coroutine(fail())

    def later(self, *parts: Deferred[int]) -> Deferred[int]:
        work: Any = start_coroutine(add(*parts))
        assert isinstance(work, Deferred)
        return work

    def test_a_failure_after_a_wait_is_a_failure(self) -> None:
        wait: Deferred[int] = Deferred()
        work = self.later(wait)
        wait.errback(ValueError("late"))
        self.failureResultOf(work, ValueError)

    def test_an_exit_after_a_wait_is_raised(self) -> None:
        async def leave() -> None:
            await wait
            raise SystemExit(1)

        wait: Deferred[None] = Deferred()
        work: Any = start_coroutine(leave())
        wait.callback(None)
        self.failureResultOf(work, SystemExit)

    def test_cancelling_a_coroutine_cancels_its_current_wait(self) -> None:
        waits: list[Deferred[int]] = [Deferred(), Deferred()]
        work = self.later(*waits)
        waits[0].callback(1)
        work.cancel()
        self.failureResultOf(work, CancelledError)
        self.assertTrue(waits[1].called)

    def test_a_coroutine_that_ignores_a_cancel_ends_silently(self) -> None:
        wait: Deferred[None] = Deferred()

        async def stubborn(fails: bool) -> None:
            try:
                await Deferred[None]()
            except CancelledError:
                await wait
            if fails:
                raise KeyError("late")

        works: list[Any] = [start_coroutine(stubborn(fails)) for fails in (False, True)]
        for work in works:
            work.cancel()
            self.failureResultOf(work, CancelledError)
        wait.callback(None)
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    @given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=6))
    @settings(max_examples=60, deadline=None)
    def test_a_coroutine_handles_any_mix_of_waits_and_failures(
        self, steps: list[tuple[bool, bool]]
    ) -> None:
        waits: list[Deferred[int]] = [Deferred() for _ in steps]

        def fire(wait: Deferred[int], good: bool) -> None:
            wait.callback(1) if good else wait.errback(KeyError("x"))

        for wait, (early, good) in zip(waits, steps, strict=True):
            if early:
                fire(wait, good)
        work: Any = start_coroutine(add(*waits))
        for wait, (early, good) in zip(waits, steps, strict=True):
            if not early:
                fire(wait, good)
        expected = sum(1 if good else 100 for _, good in steps)
        self.assertEqual(
            self.successResultOf(work) if isinstance(work, Deferred) else work, expected
        )
