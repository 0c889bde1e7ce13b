"""Components import their service before their turn. Spec: design §2 whole host."""

from __future__ import annotations

from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from svcserver.stack.child import PREPARED
from svcserver.stack.children import HELD_LINES, PREPARED_S, Children
from svcserver.stack.components import Component
from svcserver.stack.printing import Printer
from tests.stack.spawner import Spawned, Spawner
from tests.support.proves import proves

NAMES = ("metagame", "deploy", "gateway")


class PreparedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Spawner()
        self.written: list[str] = []
        wanted = [Component(name, Path(f"/host/{name}.env")) for name in NAMES]
        self.children = Children(self.reactor, wanted, Printer(self.written.append), {}, "/host")
        self.children.startService()

    def last(self, name: str) -> Spawned:
        return [process for process in self.reactor.spawned if process.name == name][-1]

    def begun(self) -> list[str]:
        return [process.name for process in self.reactor.spawned]

    @proves("svc-stack: ordered start")
    def test_components_are_prepared_in_order_and_wait_for_their_turn(self) -> None:
        self.assertEqual(self.begun(), ["metagame", "deploy"])
        self.last("deploy").says(PREPARED)
        self.assertEqual(self.begun(), list(NAMES))
        self.last("gateway").says(PREPARED)
        self.assertEqual(self.reactor.names, ["metagame"])
        for at, name in enumerate(NAMES):
            self.assertEqual(self.reactor.names, list(NAMES[: at + 1]))
            self.last(name).says(f"{name} ready")
        self.assertEqual((self.begun(), self.children.ready), (list(NAMES), set(NAMES)))
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_turn_may_come_before_the_component_is_prepared(self) -> None:
        self.last("metagame").says("metagame ready")
        self.assertEqual(
            (self.begun(), self.last("deploy").written), (["metagame", "deploy"], b"\n")
        )
        self.last("deploy").says(PREPARED)
        self.assertEqual(self.begun(), list(NAMES))
        self.assertNotIn(f"[deploy] {PREPARED}\n", self.written)
        self.last("deploy").says("deploy ready")
        self.assertEqual(self.reactor.names, list(NAMES))

    def test_component_that_ends_early_starts_at_its_turn(self) -> None:
        ends: list[int] = []
        self.children.end = lambda: ends.append(1)
        why = "svc-deploy: DEPLOY_PORT must be a port"
        self.last("deploy").says(why)
        self.last("deploy").ends(1)
        self.assertEqual((self.begun(), self.written, ends), (list(NAMES), [], []))
        self.last("metagame").says("metagame ready")
        self.assertEqual(self.reactor.names, ["metagame", "deploy"])
        self.last("deploy").says(why)
        with capturedLogs() as events:
            self.last("deploy").ends(1)
        self.assertEqual(ends, [1])
        self.assertIn(why, formatEvent(events[-1]))
        self.assertEqual(self.written.count(f"[deploy] {why}\n"), 1)

    def test_component_that_ends_unprepared_at_its_turn_is_restarted(self) -> None:
        self.last("metagame").says("metagame ready")
        self.last("deploy").ends(1)
        self.assertEqual(self.begun(), ["metagame", "deploy", "gateway"])
        self.reactor.advance(1)
        self.assertEqual(self.reactor.names, ["metagame", "deploy", "deploy"])

    def test_lines_of_a_waiting_component_are_printed_at_its_turn(self) -> None:
        for number in range(HELD_LINES + 1):
            self.last("deploy").says(f"warning {number}")
        self.last("deploy").says(PREPARED)
        self.assertEqual(self.written, [])
        self.last("metagame").says("metagame ready")
        wanted = [f"[deploy] warning {number}\n" for number in range(1, HELD_LINES + 1)]
        self.assertEqual(self.written, ["[metagame] metagame ready\n", *wanted])

    def test_component_that_is_never_prepared_starts_at_its_turn(self) -> None:
        self.last("deploy").says(PREPARED)
        hung = self.last("gateway")
        self.reactor.advance(30)
        self.last("metagame").says("metagame ready")
        self.reactor.advance(PREPARED_S - 31)
        self.assertFalse(hung.gone)
        self.reactor.advance(1)
        self.assertEqual((hung.gone, hung.written), (True, b""))
        self.last("deploy").says("deploy ready")
        self.assertEqual(self.reactor.names, list(NAMES))
        self.assertIsNot(self.last("gateway"), hung)

    def test_late_preparation_does_not_end_its_successor(self) -> None:
        self.last("metagame").says("metagame ready")
        first = self.last("deploy")
        first.says("deploy ready")
        rolled = Deferred.fromCoroutine(self.children.roll())
        self.last("metagame").says(PREPARED)
        self.reactor.advance(0)
        self.last("metagame").says("metagame ready")
        second = self.last("deploy")
        self.assertIsNot(second, first)
        first.ends(1)
        self.assertFalse(second.gone)
        self.children.stopService()
        self.assertFalse(self.successResultOf(rolled))

    @proves("svc-stack: graceful stop")
    def test_stop_ends_waiting_components(self) -> None:
        self.last("deploy").says(PREPARED)
        deploy, gateway = self.last("deploy"), self.last("gateway")
        self.successResultOf(self.children.stopService())
        self.assertEqual((deploy.signals, gateway.signals), (["KILL"], ["KILL"]))
        self.reactor.advance(120)
        self.assertEqual(self.begun(), list(NAMES))
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_program_that_cannot_be_prepared_starts_at_its_turn(self) -> None:
        self.reactor.missing = True
        self.last("deploy").ends(1)
        self.reactor.missing = False
        self.last("metagame").says("metagame ready")
        self.assertEqual(self.reactor.names, ["metagame", "deploy"])
        self.last("deploy").says("deploy ready")
        self.assertEqual(self.reactor.names, list(NAMES))
