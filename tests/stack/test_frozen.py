"""A component that answers nothing is down, and is restarted after a grace period."""

from __future__ import annotations

from pathlib import Path

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.stack.children import Children
from svcserver.stack.components import Component
from svcserver.stack.probes import FreezeMonitor, Probes
from tests.stack.spawner import Spawner
from tests.support.proves import proves

EVERY_S, FROZEN_S = 15.0, 90.0


class FakeProbes(Probes):
    """Probes whose results the test sets."""

    def probe_all(self) -> Deferred[None]:
        return succeed(None)


class FrozenTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Spawner()
        names = ("metagame", "gateway", "relay")
        wanted = [Component(name, Path(f"/h/{name}.env")) for name in names]
        self.children = Children(self.reactor, wanted, lambda name, line: None, {}, "/h")
        self.probes = FakeProbes(self.reactor, wanted)
        self.monitor = FreezeMonitor(self.reactor, self.children, self.probes, FROZEN_S)
        self.children.startService()
        for number in range(len(names)):
            self.reactor.advance(1)
            self.reactor.spawned[number].says("ready")
        self.probes.answering = {"metagame", "gateway"}

    def look(self, seconds: float) -> None:
        """Check as often as the stack does."""
        for _ in range(int(seconds / EVERY_S)):
            self.reactor.advance(EVERY_S)
            self.successResultOf(self.monitor.check())

    def signals(self) -> list[list[str]]:
        return [process.signals for process in self.reactor.spawned]

    @proves("a service that is frozen is down")
    def test_silent_component_is_down_then_killed_and_restarted(self) -> None:
        self.look(FROZEN_S)
        self.assertEqual(self.monitor.ready(), {"metagame", "gateway", "relay"})
        self.probes.answering.discard("gateway")
        self.look(FROZEN_S)
        self.assertEqual(self.monitor.ready(), {"metagame", "relay"})
        self.assertEqual(self.signals(), [[], [], []])
        self.look(EVERY_S)
        self.assertEqual(self.signals(), [[], ["KILL"], []])
        self.reactor.advance(1)
        self.assertEqual(self.reactor.names[3:], ["gateway"])
        self.look(2 * FROZEN_S)  # it is not ready yet: whoever waits for that says so
        self.assertEqual(self.reactor.spawned[3].signals, [])

    def test_one_answer_in_time_is_enough(self) -> None:
        for _ in range(4):
            self.probes.answering.discard("metagame")
            self.look(FROZEN_S - EVERY_S)
            self.probes.answering.add("metagame")
            self.look(EVERY_S)
        self.assertEqual(self.signals(), [[], [], []])
