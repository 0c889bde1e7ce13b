"""Launching, sharing, watching and ending game servers, with a fake spawner and clock."""

import os
import signal
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessTerminated
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.python.failure import Failure

from svcserver.deploy import process as processes
from svcserver.deploy.fleet import Fleet, MemoryGuard, NoCapacity
from svcserver.deploy.hunts import GameServerKind, HuntTable, Unlaunchable
from svcserver.deploy.orders import Order
from svcserver.deploy.process import GameProcess
from svcserver.deploy.readiness import VARIABLE, Readiness
from svcserver.deploy.service import HandOver, Watch
from svcserver.deploy.supervisor import EXEC_S, KILL_AFTER_S, MAX_QUEUED, Supervisor
from tests.deploy.supervised import CITY, DOJO, HUNT, TUTORIAL, FakeSpawner, SupervisorCase
from tests.support.proves import proves


class LaunchTests(SupervisorCase):
    @proves(
        "deploy: a dead city or dojo is started again before it is handed out, through one launch"
    )
    def test_simultaneous_requests_for_the_city_share_one_launch(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        self.successResultOf(self.ask(supervisor, HUNT))
        launches = [self.ask(supervisor, CITY) for _ in range(5)]
        for launch in launches:
            self.assertNoResult(launch)
        self.clock.advance(10)
        self.assertEqual({self.successResultOf(launch).port for launch in launches}, {8777})
        self.assertEqual(len(self.spawner.children), 2)

    @proves(
        "deploy: a dead city or dojo is started again before it is handed out, through one launch"
    )
    def test_cancelled_request_does_not_end_a_shared_launch(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        self.successResultOf(self.ask(supervisor, HUNT))
        first, second = self.ask(supervisor, CITY), self.ask(supervisor, CITY)
        first.addErrback(lambda why: None)
        first.cancel()
        self.clock.advance(10)
        self.assertEqual(self.successResultOf(second).port, 8777)

    def test_repeated_requests_for_a_match_get_one_server(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        first = Deferred.fromCoroutine(supervisor.hand_out(HUNT, "m-1"))
        server = self.successResultOf(first)
        for match_id, expected in (("m-1", True), ("m-2", False)):
            launch = Deferred.fromCoroutine(supervisor.hand_out(HUNT, match_id))
            self.clock.advance(10)
            self.assertEqual(self.successResultOf(launch) is server, expected)
        self.assertEqual(len(self.spawner.children), 2)

    def test_requests_for_a_starting_match_share_the_launch(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        self.successResultOf(self.ask(supervisor, HUNT))
        first, second = (Deferred.fromCoroutine(supervisor.hand_out(HUNT, "m-1")) for _ in range(2))
        first.addErrback(lambda why: None)
        first.cancel()
        self.clock.advance(10)
        self.successResultOf(second)
        self.assertEqual(len(self.spawner.children), 2)

    def test_a_match_whose_server_has_ended_gets_a_new_server(self) -> None:
        supervisor = self.make()
        self.successResultOf(Deferred.fromCoroutine(supervisor.hand_out(HUNT, "m-1")))
        self.spawner.children[0].end()
        self.successResultOf(Deferred.fromCoroutine(supervisor.hand_out(HUNT, "m-1")))
        self.assertEqual(len(self.spawner.children), 2)

    @proves(
        "deploy: launches queued SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP apart",
        "limit: Deploy server: JSON body 100 kB, launches spaced, capacity hint 10 s",
    )
    def test_launches_are_spaced_but_a_failed_launch_adds_no_gap(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        self.successResultOf(self.ask(supervisor, HUNT))
        self.clock.advance(10)
        self.spawner.broken = FileNotFoundError("gone")
        self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)
        self.spawner.broken = None
        self.successResultOf(self.ask(supervisor, HUNT))
        waiting = self.ask(supervisor, HUNT)
        self.clock.advance(9.9)
        self.assertNoResult(waiting)
        self.clock.advance(0.1)
        self.successResultOf(waiting)

    @proves(
        "PERSISTENT_WORLD_LIVENESS",
        "deploy: a dead city or dojo is started again before it is handed out, through one launch",
    )
    def test_a_dead_city_is_started_again_before_it_is_handed_out(self) -> None:
        supervisor = self.make()
        first = self.successResultOf(self.ask(supervisor, CITY))
        for _ in range(20):
            self.spawner.children[-1].end(by=9)
            again = self.successResultOf(self.ask(supervisor, CITY))
            self.assertEqual(again.port, 8777)
            self.assertNotEqual(again.id, first.id)
        self.assertEqual(len(supervisor.records()), 1)

    def test_end_is_a_warning_unless_a_hunt_exits_cleanly(self) -> None:
        supervisor = self.make()
        for request, code, level in (
            (HUNT, 0, "info"),
            (TUTORIAL, 0, "info"),
            (HUNT, 3, "warn"),
            (CITY, 0, "warn"),
        ):
            self.successResultOf(self.ask(supervisor, request))
            with capturedLogs() as events:
                self.spawner.children[-1].end(code)
            [event] = events
            self.assertEqual((event["log_level"].name, event["how"]), (level, f"code {code}"))

    def test_exit_code_of_a_server_that_ends_during_its_start_is_recorded(self) -> None:
        supervisor = self.make()
        start = self.spawner.start

        def start_and_end(process: GameProcess, order: Order) -> int:
            pid = start(process, order)
            self.spawner.children[-1].end(3)
            return pid

        self.patch(self.spawner, "start", start_and_end)
        with capturedLogs() as events:
            self.successResultOf(self.ask(supervisor, HUNT))
        self.assertEqual([event["how"] for event in events if "how" in event], ["code 3"])
        self.assertEqual(supervisor.records(), [])

    @proves("ports: city last, dojo before it, hunts highest first")
    def test_a_hunts_exit_frees_its_port_at_once(self) -> None:
        supervisor = self.make()
        for _ in range(100):
            self.assertEqual(self.successResultOf(self.ask(supervisor, HUNT)).port, 8775)
            self.spawner.children[-1].end()
        self.assertEqual(supervisor.records(), [])
        self.assertEqual(supervisor._processes, {})

    @proves("deploy: launches queued SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP apart")
    def test_number_of_queued_launches_is_limited(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        self.successResultOf(self.ask(supervisor, HUNT))
        waiting = [self.ask(supervisor, HUNT) for _ in range(1 + MAX_QUEUED)]
        self.failureResultOf(self.ask(supervisor, HUNT), NoCapacity)
        for launch in waiting:
            self.assertNoResult(launch)
            launch.addErrback(lambda why: None)
            launch.cancel()
        self.clock.advance(10)
        self.successResultOf(self.ask(supervisor, HUNT))

    @proves("deploy: 503 capacity_unavailable, reason memory or ports, Retry-After: 10")
    def test_launch_without_a_free_port_has_no_capacity(self) -> None:
        supervisor = self.make()
        for _ in range(6):
            self.successResultOf(self.ask(supervisor, HUNT))
        why = self.failureResultOf(self.ask(supervisor, HUNT), NoCapacity)
        self.assertEqual(why.value.reason, "ports")

    @proves("deploy: 500 no_game_server")
    def test_failed_spawn_releases_port_and_memory_and_hides_the_key(
        self,
    ) -> None:
        guard = MemoryGuard(0, 100, 100, 60.0, lambda: 150.0)
        supervisor = self.make(guard=guard)
        self.spawner.broken = PermissionError("not executable")
        with capturedLogs() as events:
            for _ in range(10):
                why = self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)
                self.assertIn("/srv/game: not executable", str(why.value))
        self.assertFalse(any("hush" in str(event) for event in events))
        self.spawner.broken = None
        self.assertEqual(self.successResultOf(self.ask(supervisor, HUNT)).port, 8775)
        self.failureResultOf(self.ask(supervisor, HUNT), NoCapacity)

    @proves("deploy: 500 no_game_server")
    def test_failed_exec_releases_port_and_memory(self) -> None:
        guard = MemoryGuard(0, 100, 100, 60.0, lambda: 150.0)
        supervisor = self.make(guard=guard)
        self.patch(FakeSpawner, "executes", False)
        for _ in range(10):
            launched = self.ask(supervisor, HUNT)
            self.assertNoResult(launched)
            process = self.spawner.children[-1].process
            process.end_exec(OSError(8, "/srv/game is a Windows program"))
            why = self.failureResultOf(launched, Unlaunchable)
            self.assertIn("/srv/game is a Windows program", str(why.value))
        self.assertEqual((supervisor.records(), self.clock.getDelayedCalls()), ([], []))
        launched = self.ask(supervisor, HUNT)
        self.spawner.children[-1].process.end_exec()
        self.assertEqual(self.successResultOf(launched).port, 8775)

    @proves("deploy: 500 no_game_server")
    def test_a_program_that_is_not_executed_in_time_is_killed(self) -> None:
        supervisor = self.make()
        self.patch(FakeSpawner, "executes", False)
        launched = self.ask(supervisor, HUNT)
        self.clock.advance(EXEC_S)
        why = self.failureResultOf(launched, Unlaunchable)
        self.assertIn("did not start within 30 s", str(why.value))
        self.assertEqual((self.spawner.kills, supervisor.records()), (["KILL"], []))

    def test_city_waits_for_remaining_processes_of_the_previous_city(self) -> None:
        supervisor = self.make()
        self.patch(
            GameProcess, "alive", property(lambda process: not (process.over or process.ending))
        )
        self.successResultOf(self.ask(supervisor, CITY))
        before = self.spawner.children[0]
        before.process.ending = True
        before.process.kill = lambda how: None  # type: ignore[method-assign]
        late = self.ask(supervisor, CITY)
        self.clock.advance(KILL_AFTER_S)
        self.failureResultOf(late, Unlaunchable)
        fresh = self.ask(supervisor, CITY)
        self.assertNoResult(fresh)
        supervisor.watch()  # the watch must not release the port
        self.assertEqual(len(self.spawner.children), 1)
        before.end()
        self.assertEqual(self.successResultOf(fresh).port, 8777)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    @proves("deploy: 500 no_game_server")
    def test_missing_settings_fail_launches_not_the_server(self) -> None:
        for changes in (
            {"host": ""},
            {"fleet": Fleet(0, 0)},
            {"table": HuntTable.load()},
            {"broken_guard": "X must be"},
        ):
            self.failureResultOf(self.ask(self.make(**changes), CITY), Unlaunchable)

    def test_range_of_two_ports_makes_hunts_unlaunchable(self) -> None:
        supervisor = self.make(fleet=Fleet(8776, 8777))
        # 500, not 503, because the failure is permanent
        self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)
        for request in (CITY, DOJO):
            self.successResultOf(self.ask(supervisor, request))

    def test_a_hunt_worker_has_no_city(self) -> None:
        supervisor = self.make(fleet=Fleet(8770, 8777, hunt_worker=True))
        self.failureResultOf(self.ask(supervisor, CITY), Unlaunchable)
        self.assertEqual(self.successResultOf(self.ask(supervisor, HUNT)).port, 8775)


class WatchTests(SupervisorCase):
    @proves("PERSISTENT_WORLD_LIVENESS")
    def test_watchdog_restarts_a_dead_city_and_forgets_dead_hunts(self) -> None:
        supervisor = self.make(liveness=False)
        for request in (CITY, HUNT):
            self.successResultOf(self.ask(supervisor, request))
        for child in list(self.spawner.children):
            child.process.over = True  # the process is dead, but its exit went unnoticed
        supervisor.watch()
        self.assertEqual([record["kind"] for record in supervisor.records()], ["city"])

    def test_watchdog_logs_the_exit_of_a_hunt_with_open_pipes(self) -> None:
        supervisor = self.make()
        self.successResultOf(self.ask(supervisor, HUNT))
        self.spawner.children[0].process.processExited(Failure(ProcessTerminated(3, None)))
        with capturedLogs() as events:
            supervisor.watch()
        self.assertEqual([event["how"] for event in events], ["code 3"])

    def test_watchdog_collects_the_exit_status_of_a_zombie(self) -> None:
        supervisor = self.make()
        self.successResultOf(self.ask(supervisor, HUNT))
        [child] = self.spawner.children
        # a zombie, whose exit signal has not been handled yet
        self.patch(GameProcess, "alive", False)
        self.patch(processes, "reapAllProcesses", lambda: child.end(3))
        with capturedLogs() as events:
            supervisor.watch()
        self.assertEqual([event["how"] for event in events], ["code 3"])
        self.assertTrue(child.process.over)

    @proves("deploy: SHARED with the dojo hunt: started on first use, or at boot")
    def test_dojo_is_restarted_only_after_its_first_request(self) -> None:
        supervisor = self.make()
        self.assertIs(self.successResultOf(supervisor.boot(GameServerKind.CITY)), True)
        supervisor.watch()
        self.assertEqual([record["kind"] for record in supervisor.records()], ["city"])
        self.successResultOf(self.ask(supervisor, DOJO))
        self.spawner.children[-1].end(1)
        supervisor.watch()
        self.assertEqual([record["kind"] for record in supervisor.records()], ["city", "dojo"])

    @proves("boot: a failure is one fatal line, and status 1 when it ends")
    def test_a_city_that_cannot_boot_is_one_fatal_line(self) -> None:
        supervisor = self.make(table=HuntTable.load())
        with capturedLogs() as events:
            self.assertIs(self.successResultOf(supervisor.boot(GameServerKind.CITY)), False)
        self.assertEqual([event["log_level"].name for event in events], ["critical"])

    @proves("no orphan, no leak")
    def test_stop_terminates_then_kills_and_leaves_no_timer(self) -> None:
        supervisor = self.make()
        for request in (CITY, HUNT):
            self.successResultOf(self.ask(supervisor, request))
        self.spawner.children[1].deaf = True  # type: ignore[attr-defined]
        stopped = supervisor.stop()
        self.assertNoResult(stopped)
        self.clock.advance(10)
        self.successResultOf(stopped)
        self.assertEqual(self.spawner.kills, ["TERM", "TERM", "KILL", "KILL"])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)


class ReadinessTests(SupervisorCase):
    def make_with_ready_folder(self) -> Supervisor:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        return self.make(ready_folder=folder)

    @proves("readiness by file or grace, off by default")
    def test_a_hunt_that_ends_in_its_grace_is_a_failure(self) -> None:
        supervisor = self.make(grace=lambda: 5.0)
        launch = self.ask(supervisor, HUNT)
        self.clock.pump([0.2] * 10)
        self.assertNoResult(launch)
        self.spawner.children[-1].end(1)
        self.clock.advance(0.2)  # immediately, not only after the grace period
        self.failureResultOf(launch, Unlaunchable)

    @proves("readiness by file or grace, off by default")
    def test_hunt_is_handed_out_after_its_grace(self) -> None:
        supervisor = self.make(grace=lambda: 0.5)
        launch = self.ask(supervisor, HUNT)
        self.clock.pump([0.2, 0.2])
        self.assertNoResult(launch)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(launch).port, 8775)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    @proves("readiness by file or grace, off by default")
    def test_the_ready_file_is_waited_for_and_removed(self) -> None:
        supervisor = self.make_with_ready_folder()
        launch = self.ask(supervisor, HUNT)
        proof = Path(self.spawner.extra[-1][VARIABLE])
        proof.write_text("wrong")
        self.clock.advance(0.2)
        self.assertNoResult(launch)
        proof.write_text(f"{self.spawner.children[-1].pid}:8775")
        self.clock.advance(0.2)
        self.assertEqual(self.successResultOf(launch).port, 8775)
        self.assertFalse(proof.exists())

    @proves("readiness by file or grace, off by default")
    def test_server_not_ready_after_90_seconds_is_killed(self) -> None:
        supervisor = self.make_with_ready_folder()
        launch = self.ask(supervisor, HUNT)
        self.clock.pump([0.2] * 460)
        self.failureResultOf(launch, Unlaunchable)
        self.assertIn("KILL", self.spawner.kills)

    @proves("readiness by file or grace, off by default")
    def test_a_city_that_runs_but_is_not_ready_is_waited_for(self) -> None:
        supervisor = self.make_with_ready_folder()
        first = self.ask(supervisor, CITY)
        self.clock.advance(5)
        second = self.ask(supervisor, CITY)
        self.assertNoResult(second)
        proof = Path(self.spawner.extra[-1][VARIABLE])
        proof.write_text(f"{self.spawner.children[-1].pid}:8777")
        self.clock.advance(0.2)
        self.assertIs(self.successResultOf(first), self.successResultOf(second))

    def test_missing_ready_folder_fails_the_launch_at_once(self) -> None:
        supervisor = self.make(ready_folder=Path("/no/such/folder"))
        why = self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)
        self.assertIn("GAMESERVER_READY_DIR", str(why.value))
        self.assertEqual(self.spawner.children, [])

    @proves("readiness by file or grace, off by default")
    def test_a_bad_grace_fails_the_launch(self) -> None:
        supervisor = self.make(grace=lambda: float("x"))
        self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)


class StoppableReactor(Clock):
    """A fake reactor that runs ``callFromThread`` immediately, and counts the calls of ``stop``."""

    stopped = 0

    def callFromThread(self, work: Any) -> None:
        work()

    def stop(self) -> None:
        self.stopped += 1


class HandOverTests(SupervisorCase):
    def setUp(self) -> None:
        self.addCleanup(signal.signal, signal.SIGHUP, signal.getsignal(signal.SIGHUP))
        self.supervisor, self.reactor = self.make(), StoppableReactor()
        self.watch = Watch(self.clock, self.supervisor, [GameServerKind.CITY])
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
        """After "no capacity", the metagame requests the launch for the same match again."""
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
        booted = supervisor.boot(GameServerKind.CITY)
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
