"""SIGHUP: the deploy server restarts, and its game servers run on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from svcserver.deploy.fleet import NoCapacity
from svcserver.deploy.hunts import Kind
from svcserver.deploy.readiness import Readiness
from svcserver.deploy.service import HandOver, Watch
from tests.deploy.supervised import HUNT, SupervisorCase


class StoppableReactor(Clock):
    """A reactor that makes calls from threads at once, and counts its stops."""

    stopped = 0

    def callFromThread(self, work: Any) -> None:
        work()

    def stop(self) -> None:
        self.stopped += 1


class HandOverTests(SupervisorCase):
    def setUp(self) -> None:
        self.addCleanup(signal.signal, signal.SIGHUP, signal.getsignal(signal.SIGHUP))
        self.supervisor, self.reactor = self.make(), StoppableReactor()
        self.watch = Watch(self.clock, self.supervisor, [Kind.CITY])
        self.hand_over = HandOver(self.reactor, self.watch)
        for service in (self.watch, self.hand_over):
            service.startService()
        self.assertEqual(len(self.spawner.children), 1)

    def test_stop_after_sighup_ends_no_game_server(self) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        self.assertEqual(self.reactor.stopped, 1)
        self.successResultOf(self.watch.stopService())
        self.assertEqual((self.spawner.kills, len(self.supervisor.records())), ([], 1))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_waiting_launch_fails_and_can_be_repeated(self) -> None:
        """The metagame repeats a request for a match that got "no capacity"."""
        self.supervisor.readiness = Readiness(self.clock, None, lambda: 60.0)
        waiting = Deferred.fromCoroutine(self.supervisor.hand_out(HUNT, "match"))
        self.assertNoResult(waiting)
        self.watch.hands_over = True
        self.successResultOf(self.watch.stopService())
        self.failureResultOf(waiting, NoCapacity)
        again = Deferred.fromCoroutine(self.supervisor.hand_out(HUNT, "match"))
        self.clock.advance(60.0)
        self.assertEqual(self.successResultOf(again).launch.match_id, "match")
        self.assertEqual(len(self.spawner.children), 2)  # the city, and one for the match

    def test_hand_over_while_the_city_starts_is_no_failure(self) -> None:
        self.successResultOf(self.watch.stopService())
        folder = Path(self.mktemp())
        folder.mkdir()
        supervisor = self.make(ready_folder=folder)
        booted = supervisor.boot(Kind.CITY)
        self.assertNoResult(booted)
        supervisor.hand_over()
        self.assertTrue(self.successResultOf(booted))

    def test_stop_without_sighup_ends_game_servers(self) -> None:
        self.successResultOf(self.watch.stopService())
        self.assertEqual(self.spawner.kills, ["TERM"])

    def test_sighup_during_the_stop_is_ignored(self) -> None:
        self.hand_over.stopService()
        os.kill(os.getpid(), signal.SIGHUP)
        self.assertEqual((self.reactor.stopped, self.watch.hands_over), (0, False))
