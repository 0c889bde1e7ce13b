"""Launching, sharing, watching, ending: with a fake spawner and a clock that stands still."""

from __future__ import annotations

import tempfile
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessTerminated
from twisted.logger import capturedLogs
from twisted.python.failure import Failure

from svcserver.deploy import process as processes
from svcserver.deploy.fleet import Fleet, MemoryGuard, NoCapacity
from svcserver.deploy.hunts import HuntTable, Kind, Unlaunchable
from svcserver.deploy.process import GameProcess
from svcserver.deploy.readiness import VARIABLE, Readiness
from svcserver.deploy.supervisor import EXEC_S, KILL_AFTER_S, MAX_QUEUED
from tests.deploy.supervised import (
    CITY,
    DOJO,
    HUNT,
    TUTORIAL,
    FakeSpawner,
    SupervisorCase,
)
from tests.support.proves import proves


class LaunchTests(SupervisorCase):
    @proves(
        "deploy: a dead city or dojo is started again before it is handed out, through one launch"
    )
    def test_the_city_is_started_once_for_all_who_ask_at_once(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        self.successResultOf(self.ask(supervisor, HUNT))
        asked = [self.ask(supervisor, CITY) for _ in range(5)]
        for one in asked:
            self.assertNoResult(one)
        self.clock.advance(10)
        self.assertEqual({self.successResultOf(one).port for one in asked}, {8777})
        self.assertEqual(len(self.spawner.children), 2)

    @proves(
        "deploy: a dead city or dojo is started again before it is handed out, through one launch"
    )
    def test_an_asker_who_leaves_does_not_end_the_others_launch(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        self.successResultOf(self.ask(supervisor, HUNT))
        first, second = self.ask(supervisor, CITY), self.ask(supervisor, CITY)
        first.addErrback(lambda why: None)
        first.cancel()
        self.clock.advance(10)
        self.assertEqual(self.successResultOf(second).port, 8777)

    def test_a_match_gets_one_server_however_often_it_is_asked_for(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        first = Deferred.fromCoroutine(supervisor.hand_out(HUNT, "m-1"))
        server = self.successResultOf(first)
        for match_id, expected in (("m-1", True), ("m-2", False)):
            asked = Deferred.fromCoroutine(supervisor.hand_out(HUNT, match_id))
            self.clock.advance(10)
            self.assertEqual(self.successResultOf(asked) is server, expected)
        self.assertEqual(len(self.spawner.children), 2)

    def test_a_match_that_is_asked_for_while_its_server_starts_shares_the_launch(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        self.successResultOf(self.ask(supervisor, HUNT))
        dead, other = (Deferred.fromCoroutine(supervisor.hand_out(HUNT, "m-1")) for _ in range(2))
        dead.addErrback(lambda why: None)
        dead.cancel()
        self.clock.advance(10)
        self.successResultOf(other)
        self.assertEqual(len(self.spawner.children), 2)

    def test_a_match_whose_server_has_ended_gets_a_new_one(self) -> None:
        supervisor = self.make()
        self.successResultOf(Deferred.fromCoroutine(supervisor.hand_out(HUNT, "m-1")))
        self.spawner.children[0].end()
        self.successResultOf(Deferred.fromCoroutine(supervisor.hand_out(HUNT, "m-1")))
        self.assertEqual(len(self.spawner.children), 2)

    @proves(
        "deploy: launches queued SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP apart",
        "limit: Deploy server: JSON body 100 kB, launches spaced, capacity hint 10 s",
    )
    def test_launches_are_spaced_and_a_failed_one_adds_no_gap(self) -> None:
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

    def test_an_end_is_worth_a_warning_unless_a_hunt_or_tutorial_ran_empty(self) -> None:
        supervisor = self.make()
        for wish, code, level in (
            (HUNT, 0, "info"),
            (TUTORIAL, 0, "info"),
            (HUNT, 3, "warn"),
            (CITY, 0, "warn"),
        ):
            self.successResultOf(self.ask(supervisor, wish))
            with capturedLogs() as events:
                self.spawner.children[-1].end(code)
            [event] = events
            self.assertEqual((event["log_level"].name, event["how"]), (level, f"code {code}"))

    @proves("ports: city last, dojo before it, hunts highest first")
    def test_a_hunts_exit_frees_its_port_at_once(self) -> None:
        supervisor = self.make()
        for _ in range(100):
            self.assertEqual(self.successResultOf(self.ask(supervisor, HUNT)).port, 8775)
            self.spawner.children[-1].end()
        self.assertEqual(supervisor.records(), [])
        self.assertEqual(supervisor._processes, {})

    @proves("deploy: launches queued SECONDS_TO_WAIT_BETWEEN_GAMESERVER_STARTUP apart")
    def test_only_so_many_launches_wait_their_turn(self) -> None:
        supervisor = self.make(spacing_s=10.0)
        self.successResultOf(self.ask(supervisor, HUNT))
        waiting = [self.ask(supervisor, HUNT) for _ in range(1 + MAX_QUEUED)]
        self.failureResultOf(self.ask(supervisor, HUNT), NoCapacity)
        for one in waiting:
            self.assertNoResult(one)
            one.addErrback(lambda why: None)
            one.cancel()
        self.clock.advance(10)
        self.successResultOf(self.ask(supervisor, HUNT))

    @proves("deploy: 503 capacity_unavailable, reason memory or ports, Retry-After: 10")
    def test_the_pool_runs_out_and_says_so(self) -> None:
        supervisor = self.make()
        for _ in range(6):
            self.successResultOf(self.ask(supervisor, HUNT))
        why = self.failureResultOf(self.ask(supervisor, HUNT), NoCapacity)
        self.assertEqual(why.value.reason, "ports")

    @proves("deploy: 500 no_game_server")
    def test_a_failed_spawn_gives_port_and_memory_back_and_names_the_error_not_the_key(
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
    def test_a_program_that_is_not_executed_costs_neither_port_nor_memory(self) -> None:
        guard = MemoryGuard(0, 100, 100, 60.0, lambda: 150.0)
        supervisor = self.make(guard=guard)
        self.patch(FakeSpawner, "executes", False)
        for _ in range(10):
            launched = self.ask(supervisor, HUNT)
            self.assertNoResult(launched)
            process = self.spawner.children[-1].process
            process.exec_ended(OSError(8, "/srv/game is a Windows program"))
            why = self.failureResultOf(launched, Unlaunchable)
            self.assertIn("/srv/game is a Windows program", str(why.value))
        self.assertEqual((supervisor.records(), self.clock.getDelayedCalls()), ([], []))
        launched = self.ask(supervisor, HUNT)
        self.spawner.children[-1].process.exec_ended()
        self.assertEqual(self.successResultOf(launched).port, 8775)

    @proves("deploy: 500 no_game_server")
    def test_a_program_that_is_not_executed_in_time_is_killed(self) -> None:
        supervisor = self.make()
        self.patch(FakeSpawner, "executes", False)
        launched = self.ask(supervisor, HUNT)
        self.clock.advance(EXEC_S)
        why = self.failureResultOf(launched, Unlaunchable)
        self.assertIn("not executed within 30 s", str(why.value))
        self.assertEqual((self.spawner.kills, supervisor.records()), (["KILL"], []))

    def test_a_city_waits_for_what_is_left_of_the_one_before(self) -> None:
        supervisor = self.make()
        self.patch(GameProcess, "alive", property(lambda one: not (one.over or one.ending)))
        self.successResultOf(self.ask(supervisor, CITY))
        before = self.spawner.children[0]
        before.process.ending = True
        before.process.kill = lambda how: None  # type: ignore[method-assign]
        late = self.ask(supervisor, CITY)
        self.clock.advance(KILL_AFTER_S)
        self.failureResultOf(late, Unlaunchable)
        fresh = self.ask(supervisor, CITY)
        self.assertNoResult(fresh)
        supervisor.watch()  # which must not give its port away
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

    def test_a_range_of_two_ports_has_no_pool_of_hunts_that_could_be_exhausted(self) -> None:
        supervisor = self.make(fleet=Fleet(8776, 8777))
        self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)  # 500, not 503: for good
        for wish in (CITY, DOJO):
            self.successResultOf(self.ask(supervisor, wish))

    def test_a_hunt_worker_has_no_city(self) -> None:
        supervisor = self.make(fleet=Fleet(8770, 8777, hunt_worker=True))
        self.failureResultOf(self.ask(supervisor, CITY), Unlaunchable)
        self.assertEqual(self.successResultOf(self.ask(supervisor, HUNT)).port, 8775)


class WatchTests(SupervisorCase):
    @proves("PERSISTENT_WORLD_LIVENESS")
    def test_the_watchdog_restarts_dead_worlds_and_forgets_dead_hunts(self) -> None:
        supervisor = self.make(liveness=False)
        for wish in (CITY, HUNT):
            self.successResultOf(self.ask(supervisor, wish))
        for child in list(self.spawner.children):
            child.process.over = True  # dead, and its exit went unnoticed
        supervisor.watch()
        self.assertEqual([one["kind"] for one in supervisor.records()], ["city"])

    def test_the_watchdog_says_how_a_hunt_ended_whose_pipes_are_open_still(self) -> None:
        supervisor = self.make()
        self.successResultOf(self.ask(supervisor, HUNT))
        self.spawner.children[0].process.processExited(Failure(ProcessTerminated(3, None)))
        with capturedLogs() as events:
            supervisor.watch()
        self.assertEqual([event["how"] for event in events], ["code 3"])

    def test_the_watchdog_asks_how_a_dead_hunt_ended_that_nobody_was_told_of(self) -> None:
        supervisor = self.make()
        self.successResultOf(self.ask(supervisor, HUNT))
        [child] = self.spawner.children
        self.patch(GameProcess, "alive", False)  # a zombie: its signal has yet to be handled
        self.patch(processes, "reapAllProcesses", lambda: child.end(3))
        with capturedLogs() as events:
            supervisor.watch()
        self.assertEqual([event["how"] for event in events], ["code 3"])
        self.assertTrue(child.process.over)

    @proves("deploy: SHARED with the dojo hunt: started on first use, or at boot")
    def test_the_dojo_is_watched_only_once_it_was_asked_for(self) -> None:
        supervisor = self.make()
        self.assertIs(self.successResultOf(supervisor.boot(Kind.CITY)), True)
        supervisor.watch()
        self.assertEqual([one["kind"] for one in supervisor.records()], ["city"])
        self.successResultOf(self.ask(supervisor, DOJO))
        self.spawner.children[-1].end(1)
        supervisor.watch()
        self.assertEqual([one["kind"] for one in supervisor.records()], ["city", "dojo"])

    @proves("boot: a failure is one fatal line, and status 1 when it ends")
    def test_a_city_that_cannot_boot_is_one_fatal_line(self) -> None:
        supervisor = self.make(table=HuntTable.load())
        with capturedLogs() as events:
            self.assertIs(self.successResultOf(supervisor.boot(Kind.CITY)), False)
        self.assertEqual([event["log_level"].name for event in events], ["critical"])

    @proves("no orphan, no leak")
    def test_stop_terminates_then_kills_and_leaves_no_timer(self) -> None:
        supervisor = self.make()
        for wish in (CITY, HUNT):
            self.successResultOf(self.ask(supervisor, wish))
        self.spawner.children[1].deaf = True  # type: ignore[attr-defined]
        stopped = supervisor.stop()
        self.assertNoResult(stopped)
        self.clock.advance(10)
        self.successResultOf(stopped)
        self.assertEqual(self.spawner.kills, ["TERM", "TERM", "KILL", "KILL"])
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)


class ReadinessTests(SupervisorCase):
    @proves("readiness by file or grace, off by default")
    def test_a_hunt_that_ends_in_its_grace_is_a_failure(self) -> None:
        supervisor = self.make()
        supervisor.readiness = Readiness(self.clock, None, lambda: 5.0)
        asked = self.ask(supervisor, HUNT)
        self.clock.pump([0.2] * 10)
        self.assertNoResult(asked)
        self.spawner.children[-1].end(1)
        self.clock.advance(0.2)  # at once, not when the grace is over
        self.failureResultOf(asked, Unlaunchable)

    @proves("readiness by file or grace, off by default")
    def test_a_hunt_that_outlives_its_grace_is_handed_out_then(self) -> None:
        supervisor = self.make()
        supervisor.readiness = Readiness(self.clock, None, lambda: 0.5)
        asked = self.ask(supervisor, HUNT)
        self.clock.pump([0.2, 0.2])
        self.assertNoResult(asked)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(asked).port, 8775)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    @proves("readiness by file or grace, off by default")
    def test_the_ready_file_is_waited_for_and_removed(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        supervisor = self.make()
        supervisor.readiness = Readiness(self.clock, Path(folder.name))
        asked = self.ask(supervisor, HUNT)
        proof = Path(self.spawner.extra[-1][VARIABLE])
        proof.write_text("wrong")
        self.clock.advance(0.2)
        self.assertNoResult(asked)
        proof.write_text(f"{self.spawner.children[-1].pid}:8775")
        self.clock.advance(0.2)
        self.assertEqual(self.successResultOf(asked).port, 8775)
        self.assertFalse(proof.exists())

    @proves("readiness by file or grace, off by default")
    def test_ninety_seconds_without_proof_are_too_long(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        supervisor = self.make()
        supervisor.readiness = Readiness(self.clock, Path(folder.name))
        asked = self.ask(supervisor, HUNT)
        self.clock.pump([0.2] * 460)
        self.failureResultOf(asked, Unlaunchable)
        self.assertIn("KILL", self.spawner.kills)

    @proves("readiness by file or grace, off by default")
    def test_a_city_that_runs_but_is_not_ready_is_waited_for(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        supervisor = self.make()
        supervisor.readiness = Readiness(self.clock, Path(folder.name))
        first = self.ask(supervisor, CITY)
        self.clock.advance(5)
        second = self.ask(supervisor, CITY)
        self.assertNoResult(second)
        proof = Path(self.spawner.extra[-1][VARIABLE])
        proof.write_text(f"{self.spawner.children[-1].pid}:8777")
        self.clock.advance(0.2)
        self.assertIs(self.successResultOf(first), self.successResultOf(second))

    def test_a_folder_that_is_none_fails_the_launch_at_once_and_starts_nothing(self) -> None:
        supervisor = self.make()
        supervisor.readiness = Readiness(self.clock, Path("/no/such/folder"))
        why = self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)
        self.assertIn("GAMESERVER_READY_DIR", str(why.value))
        self.assertEqual(self.spawner.children, [])

    @proves("readiness by file or grace, off by default")
    def test_a_bad_grace_fails_the_launch(self) -> None:
        supervisor = self.make()

        def bad() -> float:
            raise ValueError("must be a whole number")

        supervisor.readiness = Readiness(self.clock, None, bad)
        self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)
