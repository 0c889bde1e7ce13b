"""A component that answers nothing is down, and is started anew after a grace."""

from __future__ import annotations

from pathlib import Path

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from svcserver.stack.children import Children
from svcserver.stack.components import Component
from svcserver.stack.doors import Doors
from svcserver.stack.service import Frozen
from tests.stack.spawner import Spawner
from tests.support.proves import proves

EVERY_S, FROZEN_S = 15.0, 90.0


class Asked(Doors):
    """Doors that answer as the test says."""

    def look(self) -> Deferred[None]:
        return succeed(None)


class FrozenTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Spawner()
        names = ("metagame", "gateway", "relay")
        wanted = [Component(one, Path(f"/h/{one}.env")) for one in names]
        self.children = Children(self.reactor, wanted, lambda name, line: None, {}, "/h")
        self.doors = Asked(self.reactor, wanted)
        self.frozen = Frozen(self.reactor, self.children, self.doors, FROZEN_S)
        self.children.startService()
        for number in range(len(names)):
            self.reactor.advance(1)
            self.reactor.spawned[number].says("ready")
        self.doors.open = {"metagame", "gateway"}

    def look(self, seconds: float) -> None:
        """As often as the stack looks."""
        for _ in range(int(seconds / EVERY_S)):
            self.reactor.advance(EVERY_S)
            self.successResultOf(self.frozen.look())

    def signals(self) -> list[list[str]]:
        return [one.signals for one in self.reactor.spawned]

    @proves("a service that is frozen is down")
    def test_one_that_answers_nothing_is_down_then_killed_and_comes_back(self) -> None:
        self.look(FROZEN_S)
        self.assertEqual(self.frozen.ready(), {"metagame", "gateway", "relay"})
        self.doors.open.discard("gateway")
        self.look(FROZEN_S)
        self.assertEqual(self.frozen.ready(), {"metagame", "relay"})
        self.assertEqual(self.signals(), [[], [], []])
        self.look(EVERY_S)
        self.assertEqual(self.signals(), [[], ["KILL"], []])
        self.reactor.advance(1)
        self.assertEqual(self.reactor.names[3:], ["gateway"])
        self.look(2 * FROZEN_S)  # it is not ready yet: whoever waits for that says so
        self.assertEqual(self.reactor.spawned[3].signals, [])

    def test_one_answer_is_enough(self) -> None:
        for _ in range(4):
            self.doors.open.discard("metagame")
            self.look(FROZEN_S - EVERY_S)
            self.doors.open.add("metagame")
            self.look(EVERY_S)
        self.assertEqual(self.signals(), [[], [], []])
