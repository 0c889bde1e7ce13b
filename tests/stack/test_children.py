"""The stack's child processes, which are prepared in advance and start in order.

Spec: design §2 whole host.
"""

from __future__ import annotations

from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from svcserver.stack.child import PREPARED
from svcserver.stack.children import HELD_LINES, PREPARED_S, READY_S, Children
from svcserver.stack.components import Component
from svcserver.stack.printing import Printer
from svcserver.stack.service import figures
from tests.stack.spawner import Spawned, Spawner
from tests.support.proves import proves

NAMES = ("metagame", "deploy", "gateway")


class ChildrenCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Spawner()
        self.written: list[str] = []
        components = [Component(name, Path(f"/host/{name}.env")) for name in NAMES]
        self.children = Children(
            self.reactor, components, Printer(self.written.append), {"PATH": "/bin"}, "/host"
        )
        self.children.startService()


class ChildrenTests(ChildrenCase):
    def start_all(self) -> list[Spawned]:
        for at in range(len(NAMES)):
            self.reactor.spawned[at].says(f"{NAMES[at]} ready on 127.0.0.1:{at}")
        return list(self.reactor.spawned)

    @proves("svc-stack: ordered start")
    def test_each_component_waits_until_the_previous_is_ready(self) -> None:
        self.assertEqual(self.reactor.names, ["metagame"])
        self.reactor.spawned[0].says("already starting; not yet")
        self.assertEqual(self.reactor.names, ["metagame"])
        self.reactor.spawned[0].says("metagame ready on 127.0.0.1:61000")
        self.assertEqual(self.reactor.names, ["metagame", "deploy"])
        complete = list[str]()
        self.children.on_complete = lambda: complete.append("complete")
        with capturedLogs() as events:
            self.reactor.spawned[1].says('{"message":"deploy ready"}')
            self.assertEqual(complete, [])
            self.reactor.spawned[2].says("gateway ready")
        self.assertEqual(complete, ["complete"])
        self.assertEqual(self.reactor.names, list(NAMES))
        texts = [formatEvent(event) for event in events]
        self.assertIn("stack ready: metagame, deploy, gateway", texts)

    @proves("svc-stack: ordered start")
    def test_component_that_is_never_ready_delays_the_next_briefly(self) -> None:
        self.reactor.advance(READY_S - 1)
        self.assertEqual(self.reactor.names, ["metagame"])
        self.reactor.advance(1)
        self.assertEqual(self.reactor.names, ["metagame", "deploy"])

    @proves("METRICS_PORT of every service, on loopback only")
    def test_metrics_count_ready_components_and_starts(self) -> None:
        def shown() -> tuple[float, ...]:
            return tuple(figure.read() for figure in figures(self.children).values())

        self.assertEqual(shown(), (3, 0, 1))
        first, *_ = self.start_all()
        self.assertEqual(shown(), (3, 3, 3))
        first.ends(signal=9)
        self.assertEqual(shown(), (3, 2, 3))
        self.reactor.advance(60)
        self.assertEqual(shown(), (3, 2, 4))

    @proves("svc-stack: only PATH HOME LANG TZ and its own env file")
    def test_child_gets_only_its_own_file_and_environment(self) -> None:
        first = self.reactor.spawned[0]
        self.assertEqual(first.environment, {"PATH": "/bin"})
        self.assertEqual(first.folder, "/host")
        self.assertEqual(first.arguments[-3:], ["svc-metagame", "--env-file", "/host/metagame.env"])

    @proves("svc-stack: output prefixed with the name")
    def test_every_line_has_its_components_name(self) -> None:
        first = self.reactor.spawned[0]
        first.protocol.outReceived(b"one\nt")
        first.protocol.errReceived(b"oh\n")
        first.protocol.outReceived(b"wo\n\xff\nlast")
        first.ends(1)
        wanted = ["[metagame] one\n", "[metagame] oh\n", "[metagame] two\n"]
        self.assertEqual(self.written, [*wanted, "[metagame] \ufffd\n", "[metagame] last\n"])

    @proves("svc-stack: restart with back-off")
    def test_crashing_child_is_restarted_with_back_off(self) -> None:
        self.start_all()
        for wait in (1, 2, 4, 8, 16, 32, 60, 60):
            count = len(self.reactor.spawned)
            self.reactor.spawned[-1].ends(1)
            self.reactor.advance(wait - 0.1)
            self.assertEqual(len(self.reactor.spawned), count)
            self.reactor.advance(0.1)
            self.assertEqual(self.reactor.names[-1], "gateway")
            self.assertEqual(len(self.reactor.spawned), count + 1)

    @proves("svc-stack: restart with back-off")
    def test_child_that_ran_long_is_restarted_at_once(self) -> None:
        first = self.start_all()[0]
        self.reactor.advance(3600)
        with capturedLogs() as events:
            first.ends(signal=9)
        self.reactor.advance(0)
        self.assertEqual(self.reactor.names[-1], "metagame")
        line = "metagame ended (signal 9); it starts again in 0 s"
        self.assertEqual(formatEvent(events[-1]), line)

    def test_end_before_ready_is_logged_with_the_last_message(self) -> None:
        with capturedLogs() as events:
            self.reactor.spawned[0].says("svc-metagame: DATABASE_URL: no answer")
            self.reactor.spawned[0].ends(1)
        texts = [formatEvent(event) for event in events]
        self.assertIn(
            "metagame ended before it was ready (status 1): "
            "svc-metagame: DATABASE_URL: no answer; it starts again in 1 s",
            texts,
        )

    def test_reason_for_a_failed_start_precedes_later_log_lines(self) -> None:
        first = self.reactor.spawned[0]
        with capturedLogs() as events:
            first.says("svc-metagame: PORT: cannot listen")
            first.says('{"message":"reactor class: some"}')
            first.ends(1)
        self.assertIn("(status 1): svc-metagame: PORT: cannot listen;", formatEvent(events[-1]))

    def test_a_bad_setting_ends_the_stack_before_it_was_complete(self) -> None:
        ends: list[int] = []
        self.children.end = lambda: ends.append(1)
        with capturedLogs() as events:
            self.reactor.spawned[0].says("svc-metagame: PORT must be a whole number")
            self.reactor.spawned[0].ends(1)
        self.assertEqual(ends, [1])
        self.assertEqual(
            formatEvent(events[-1]),
            "metagame ended before it was ready (status 1): "
            "svc-metagame: PORT must be a whole number; the stack ends",
        )

    def test_no_answer_or_a_late_bad_setting_does_not_end_the_stack(self) -> None:
        ends: list[int] = []
        self.children.end = lambda: ends.append(1)
        for line in (
            "svc-metagame: DATABASE_URL: no answer",
            "svc-metagame: Could not listen on 127.0.0.1:1: in use",
        ):
            self.reactor.spawned[-1].says(line)
            self.reactor.spawned[-1].ends(1)
            self.reactor.advance(60)
        self.start_all_of(2)
        self.reactor.spawned[-1].ends(1)
        self.reactor.advance(60)
        self.reactor.spawned[-1].says("svc-gateway: GATEWAY_PORT must be a port")
        self.reactor.spawned[-1].ends(1)
        self.assertEqual(ends, [])

    def start_all_of(self, first: int) -> None:
        for at in range(len(NAMES)):
            self.reactor.spawned[first + at].says("ready")

    def test_a_program_that_cannot_be_started_is_tried_again(self) -> None:
        self.reactor.missing = True
        self.reactor.spawned[0].ends(1)
        self.reactor.advance(1)
        self.reactor.missing = False
        self.reactor.advance(2)
        self.assertEqual(self.reactor.names, ["metagame", "metagame"])

    @proves("svc-stack: graceful stop")
    def test_stop_is_in_reverse_order_and_waits_for_each(self) -> None:
        metagame, deploy, gateway = self.start_all()
        gateway.obedient = False
        stopped = self.children.stopService()
        self.assertEqual((gateway.signals, deploy.signals), (["TERM"], []))
        self.reactor.advance(self.children.killTime)
        self.assertEqual(gateway.signals, ["TERM", "KILL"])
        self.assertEqual((deploy.signals, metagame.signals), (["TERM"], ["TERM"]))
        self.assertIsNone(self.successResultOf(stopped))
        self.reactor.advance(120)
        self.assertEqual(len(self.reactor.spawned), 3)
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_stop_during_a_restart_leaves_nothing(self) -> None:
        self.start_all()[1].ends(1)
        self.successResultOf(self.children.stopService())
        self.reactor.advance(120)
        self.assertEqual(len(self.reactor.spawned), 3)
        self.assertEqual(self.reactor.getDelayedCalls(), [])


class PreparedTests(ChildrenCase):
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
