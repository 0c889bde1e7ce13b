"""The reactor of a command: its result, its error, and Ctrl-C."""

import signal
from collections.abc import Callable
from functools import partial
from typing import Any, cast
from unittest import mock

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.task import react
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import reactor_run
from svcserver.kernel.reactor_run import run_in_reactor


@define(eq=False)
class FakeReactor:
    """The part of a reactor that ``react`` uses; ``events`` are what happens while it runs."""

    events: list[Callable[[], object]]
    triggers: list[Callable[[], object]] = field(factory=list)
    stopped: bool = False

    def addSystemEventTrigger(self, phase: str, event: str, call: Callable[[], object]) -> None:
        self.triggers.append(call)

    def callWhenRunning(self, call: Callable[..., None], *args: object) -> None:
        self.events.insert(0, partial(call, *args))

    def stop(self) -> None:
        self.stopped = True
        for call in self.triggers:
            call()

    def callFromThread(self, call: Callable[[], None]) -> None:
        self.events.insert(0, call)

    def run(self) -> None:
        while not self.stopped:
            self.events.pop(0)()


class RunInReactorTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(reactor_run, "globalLogBeginner", mock.Mock())
        self.addCleanup(signal.signal, signal.SIGHUP, signal.getsignal(signal.SIGHUP))
        self.answer: Deferred[str] = Deferred()

    async def work(self, reactor: Any) -> str:
        return await self.answer

    def run_work(self, *events: Callable[[], object]) -> str:
        self.reactor = FakeReactor(list(events))
        self.patch(reactor_run, "react", partial(react, _reactor=cast(Any, self.reactor)))
        return run_in_reactor(self.work)

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        self.reactor.stop()

    def test_the_result_is_returned(self) -> None:
        self.assertEqual(self.run_work(lambda: self.answer.callback("sent")), "sent")

    def test_an_error_is_raised_and_not_only_logged(self) -> None:
        for error in (ZeroDivisionError("refused"), SystemExit("the ports cannot be closed")):
            self.answer = Deferred()
            fail = partial(self.answer.errback, error)
            self.assertIs(self.assertRaises(type(error), self.run_work, fail), error)

    def test_ctrl_c_before_the_end_is_never_a_success(self) -> None:
        self.assertRaises(KeyboardInterrupt, self.run_work, self.interrupt)

    def test_a_result_after_ctrl_c_is_ignored(self) -> None:
        """The reactor then closes the connections, and the work may take that for a result."""
        for answer in (ConnectionLost(), "sent"):
            self.answer = Deferred()
            end = self.answer.callback if isinstance(answer, str) else self.answer.errback

            def interrupt(end: Any = end, answer: Any = answer) -> None:
                self.reactor.triggers.append(partial(end, answer))
                self.interrupt()

            self.assertRaises(KeyboardInterrupt, self.run_work, interrupt)

    def test_the_end_of_the_terminal_stops_the_work(self) -> None:
        def close_terminal() -> None:
            cast(Any, signal.getsignal(signal.SIGHUP))(signal.SIGHUP, None)

        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        self.assertRaises(KeyboardInterrupt, self.run_work, close_terminal)

    def test_the_end_of_the_terminal_stays_ignored_under_nohup(self) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.run_work(lambda: self.answer.callback("sent"))
        self.assertIs(signal.getsignal(signal.SIGHUP), signal.SIG_IGN)

    def test_a_result_before_ctrl_c_is_returned(self) -> None:
        def answer_and_interrupt() -> None:
            self.answer.callback("sent")
            self.interrupt()

        self.assertEqual(self.run_work(answer_and_interrupt), "sent")
