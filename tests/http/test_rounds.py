"""A listener's periodic check of its connections runs only while there is something to check."""

from typing import Any

from attrs import define, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.http.connection import Connections


@define(eq=False)
class Swept:
    """A connection or pool; ``left`` says whether it needs another check."""

    left: bool = False
    at: list[float] = field(factory=list)

    def sweep(self, now: float) -> bool:
        self.at.append(now)
        return self.left


class RoundTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.connections: Connections[Any] = Connections(self.clock)
        self.connections.startFactory()

    def test_an_idle_listener_wakes_nobody(self) -> None:
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_rounds_run_from_the_first_connection_until_after_the_last(self) -> None:
        swept = Swept()
        for _ in range(2):
            self.connections.add(swept)
            self.clock.pump([1.0] * 3)
            self.connections.remove(swept, None)  # type: ignore[arg-type]
            self.clock.advance(1)
            self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(swept.at, [1.0, 2.0, 3.0, 5.0, 6.0, 7.0])

    def test_a_pool_that_keeps_connections_keeps_the_rounds(self) -> None:
        swept, pool = Swept(), Swept(left=True)
        self.connections.sweeps.append(pool.sweep)
        self.connections.add(swept)
        self.connections.remove(swept, None)  # type: ignore[arg-type]
        self.clock.pump([1.0] * 3)
        pool.left = False
        self.clock.pump([1.0] * 3)
        self.assertEqual(pool.at, [1.0, 2.0, 3.0, 4.0])
        self.assertEqual(self.clock.getDelayedCalls(), [])
