"""A turn of the reactor, the short way: what Twisted does, without its context for the log."""

from __future__ import annotations

import errno
import select
import sys
from threading import Thread
from time import monotonic
from typing import Any

from attrs import define, field
from twisted.internet.error import ReactorNotRunning
from twisted.internet.main import CONNECTION_DONE
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.events import Bell, Later, after_events, shorten, turn

BROKEN = ValueError("a connection broke")


@define
class Connection:
    """One whose bytes have come; ``outcome`` is what handling them gives, or raises."""

    outcome: Exception | None = None
    raises: bool = False
    read: int = 0

    def doRead(self) -> Exception | None:
        self.read += 1
        if self.raises and self.outcome is not None:
            raise self.outcome
        return self.outcome


class Other(Connection):
    """What is no TCP connection, as the reactor's own waker."""


@define
class Reactor:
    """As much of an EPollReactor as a turn uses."""

    _selectables: dict[int, Connection]
    events: list[tuple[int, int]]
    fault: Exception | None = None
    asked: list[tuple[float, int]] = field(factory=list)
    ordinary: list[tuple[Connection, int, int]] = field(factory=list)
    ended: list[tuple[Connection, Exception, bool]] = field(factory=list)

    @property
    def _poller(self) -> Reactor:
        return self

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        self.asked.append((timeout, most))
        if self.fault is not None:
            raise self.fault
        return self.events

    def _doReadOrWrite(self, one: Connection, number: int, event: int) -> None:
        self.ordinary.append((one, number, event))
        if one.raises:
            raise BROKEN

    def _disconnectSelectable(self, one: Connection, why: Exception, came: bool) -> None:
        self.ended.append((one, why, came))
        self._selectables = {n: kept for n, kept in self._selectables.items() if kept is not one}


def one_turn(reactor: Any, timeout: float | None = 1.5, later: Later | None = None) -> Any:
    turn(reactor, (Connection,), Later() if later is None else later, timeout)
    return reactor


class TurnTests(SynchronousTestCase):
    def test_bytes_on_a_connection_are_read(self) -> None:
        one = Connection()
        reactor = one_turn(Reactor({7: one, 8: Connection()}, [(7, select.EPOLLIN)]))
        self.assertEqual((one.read, reactor.ordinary, reactor.ended), (1, [], []))
        self.assertEqual(reactor.asked, [(1.5, 2)])
        self.assertEqual(one_turn(Reactor({}, []), None).asked, [(-1, 0)])

    def test_everything_else_goes_the_ordinary_way(self) -> None:
        waker, leaving, broken = Other(), Connection(), Other(raises=True)
        both = select.EPOLLIN | select.EPOLLHUP
        events = [(1, select.EPOLLIN), (2, both), (3, select.EPOLLOUT), (4, select.EPOLLIN)]
        reactor = one_turn(Reactor({1: waker, 2: leaving, 3: broken}, events))
        self.assertEqual(
            reactor.ordinary,
            [(waker, 1, select.EPOLLIN), (leaving, 2, both), (broken, 3, select.EPOLLOUT)],
        )
        self.assertEqual(self.flushLoggedErrors(ValueError)[0].value, BROKEN)
        self.assertEqual(leaving.read, 0)

    def test_who_has_said_everything_is_told_apart_from_who_broke(self) -> None:
        done, broken = Connection(CONNECTION_DONE), Connection(BROKEN, raises=True)
        events = [(1, select.EPOLLIN), (2, select.EPOLLIN)]
        reactor = one_turn(Reactor({1: done, 2: broken}, events))
        self.assertEqual(reactor.ended, [(done, CONNECTION_DONE, True), (broken, BROKEN, False)])
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)

    def test_a_signal_ends_the_wait_and_a_fault_is_told(self) -> None:
        one_turn(Reactor({}, [(1, select.EPOLLIN)], OSError(errno.EINTR, "")))
        with self.assertRaises(OSError):
            one_turn(Reactor({}, [], OSError(errno.EBADF, "")))

    def test_only_an_epoll_reactor_changes(self) -> None:
        class EPollReactor:
            doIteration: Any = None
            callFromThread: Any = None

            def __init__(self) -> None:
                self._internalReaders: set[Any] = set()
                self.read: list[Any] = []
                self.addReader = self.read.append

        class SelectReactor(EPollReactor):
            pass

        ours, another = EPollReactor(), SelectReactor()
        shorten(ours)
        shorten(ours)  # again changes nothing
        shorten(another)
        self.assertTrue(callable(ours.doIteration) and callable(ours.callFromThread))
        self.assertEqual((len(ours.read), ours._internalReaders), (1, set(ours.read)))
        self.assertEqual((another.doIteration, another.callFromThread), (None, None))
        ours.read[0].connectionLost(None)


class LaterTests(SynchronousTestCase):
    """What follows the events of a turn."""

    def setUp(self) -> None:
        self.done: list[str] = []
        self.later = Later()

    def test_it_is_called_once_all_events_are_handled(self) -> None:
        class Asking(Connection):
            def doRead(self) -> None:
                test.later.append((test.done.append, ("followed",)))
                test.done.append("read")

        test = self
        both = {1: Asking(), 2: Asking()}
        events = [(1, select.EPOLLIN), (2, select.EPOLLIN)]
        turn(Reactor(both, events), (Asking,), self.later, 1.5)
        self.assertEqual(self.done, ["read", "read", "followed", "followed"])

    def test_what_a_timer_asked_for_is_called_before_a_wait_that_is_then_none(self) -> None:
        self.later.append((self.done.append, ("followed",)))
        self.assertEqual(one_turn(Reactor({}, []), 1.5, self.later).asked, [(0, 0)])
        self.assertEqual(one_turn(Reactor({}, []), 1.5, self.later).asked, [(1.5, 0)])
        self.assertEqual(self.done, ["followed"])

    def test_one_that_fails_keeps_no_other_from_its_turn(self) -> None:
        self.later.extend([({}.__getitem__, ("missing",)), (self.done.append, ("followed",))])
        one_turn(Reactor({}, []), 1.5, self.later)
        self.assertEqual((self.done, len(self.flushLoggedErrors(KeyError))), (["followed"], 1))

    def test_nor_does_an_exit(self) -> None:
        self.later.extend([(sys.exit, (1,)), (self.done.append, ("followed",))])
        one_turn(Reactor({}, []), 1.5, self.later)
        self.assertEqual((self.done, len(self.flushLoggedErrors(SystemExit))), (["followed"], 1))

    def test_one_that_asks_again_waits_for_the_next_turn(self) -> None:
        def again() -> None:
            self.done.append("once")
            self.later.append((again, ()))

        self.later.append((again, ()))
        one_turn(Reactor({}, []), 1.5, self.later)
        self.assertEqual(self.done, ["once", "once"])  # before the wait, and after the events

    def test_another_reactor_makes_a_timer_of_it(self) -> None:
        clock = Clock()
        after_events(clock, self.done.append, "followed")
        self.assertEqual(self.done, [])
        clock.advance(0)
        self.assertEqual(self.done, ["followed"])


class BellTests(SynchronousTestCase):
    """What other threads hand over to the reactor's."""

    def setUp(self) -> None:
        self.bell, self.done = Bell(), []
        self.addCleanup(self.bell.connectionLost, None)

    def rung(self) -> bool:
        return bool(select.select([self.bell], [], [], 0)[0])

    def test_calls_are_made_in_order_when_the_reactor_looks(self) -> None:
        self.assertFalse(self.rung())
        for number in range(3):
            self.bell.call(self.done.append, number)
        self.assertEqual((self.rung(), self.done), (True, []))
        self.bell.doRead()
        self.assertEqual((self.rung(), self.done), (False, [0, 1, 2]))
        self.bell.doRead()  # though nobody has rung
        self.assertEqual(self.done, [0, 1, 2])

    def test_a_call_that_fails_keeps_no_other_from_being_made(self) -> None:
        self.bell.call({}.__getitem__, "missing")
        self.bell.call(self.done.append, object)
        self.bell.doRead()
        self.assertEqual((self.done, len(self.flushLoggedErrors(KeyError))), ([object], 1))

    def test_not_even_an_exit_keeps_others_from_being_made(self) -> None:
        self.bell.call(sys.exit, 1)
        self.bell.call(self.done.append, object)
        self.bell.doRead()
        self.assertEqual((self.done, len(self.flushLoggedErrors(SystemExit))), ([object], 1))

    def test_a_second_signal_to_stop_is_no_fault(self) -> None:
        def stop() -> None:  # as Ctrl-C pressed twice asks for it
            self.done.append(stop)
            if len(self.done) > 1:
                raise ReactorNotRunning("Can't stop reactor that isn't running.")

        for _ in range(2):
            self.bell.call(stop)
        self.bell.doRead()
        self.assertEqual((self.done, self.flushLoggedErrors()), ([stop, stop], []))

    def test_a_call_that_rings_again_is_heard_in_the_next_turn(self) -> None:
        self.bell.call(lambda: self.bell.call(self.done.append, "again"))
        self.bell.doRead()
        self.assertEqual((self.done, self.rung()), ([], True))
        self.bell.doRead()
        self.assertEqual(self.done, ["again"])

    def test_no_call_of_many_threads_is_lost(self) -> None:
        threads = [
            Thread(target=lambda: [self.bell.call(self.done.append, 1) for _ in range(2_000)])
            for _ in range(4)
        ]
        for one in threads:
            one.start()
        deadline = monotonic() + 60
        while len(self.done) < 8_000 and monotonic() < deadline:
            if select.select([self.bell], [], [], 1)[0]:
                self.bell.doRead()
        for one in threads:
            one.join()
        self.assertEqual(len(self.done), 8_000)
