"""A turn of the reactor, the short way: what Twisted does, without its context for the log."""

from __future__ import annotations

import errno
import select
from typing import Any

from attrs import define, field
from twisted.internet.main import CONNECTION_DONE
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.events import shorten, turn

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


def one_turn(reactor: Any, timeout: float | None = 1.5) -> Any:
    turn(reactor, (Connection,), timeout)
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

        class SelectReactor(EPollReactor):
            pass

        ours, another = EPollReactor(), SelectReactor()
        shorten(ours)
        shorten(another)
        self.assertTrue(callable(ours.doIteration))
        self.assertIsNone(another.doIteration)
