"""Launching, sharing, watching, ending: with a fake spawner and a clock that stands still."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessDone, ProcessTerminated
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.fleet import Fleet, GameServer, MemoryGuard, NoCapacity
from svcserver.deploy.hunts import HuntTable, Kind, Unlaunchable
from svcserver.deploy.process import GameProcess, check_program
from svcserver.deploy.readiness import VARIABLE, Readiness
from svcserver.deploy.service import front_door
from svcserver.deploy.supervisor import MAX_QUEUED, Program, Supervisor
from svcserver.kernel.launch_requests import LaunchRequest
from svcserver.kernel.secrets import Secret, fingerprint
from tests.support.browser import Browser
from tests.support.proves import proves

CITY = LaunchRequest("CITY", "", "")
HUNT = LaunchRequest("ISLAND", "", "CR19_PlayerHunt_Escalation_Randall_Easy", ("UID-a",))
TUTORIAL = LaunchRequest(
    "ISLAND", "/Game/Maps/islands/1705/dia_moss_triforce?MaxPlayers=1?MonsterClass=", ""
)
DOJO = LaunchRequest("SHARED", "", "ShatteredIsles_TrainingDojo")
PATH = "/api/matchmaker/handle-matchmaking-for-player"


class FakeTransport:
    """A child that does what it is told."""

    def __init__(self, process: GameProcess, pid: int) -> None:
        self.process, self.pid = process, pid

    def loseConnection(self) -> None:
        """Pipes are closed by ``end``."""

    def reapProcess(self) -> None:
        """The system knows of no end."""

    def end(self, code: int = 0, by: int | None = None) -> None:
        why: Exception = (
            ProcessDone(0) if code == 0 and by is None else ProcessTerminated(code or None, by)
        )
        self.process.processExited(Failure(why))
        self.process.processEnded(Failure(why))


class FakeSpawner:
    """Records what was started; ``kills`` what was signalled."""

    def __init__(self) -> None:
        self.children: list[FakeTransport] = []
        self.commands: list[list[str]] = []
        self.extra: list[dict[str, str]] = []
        self.broken: OSError | None = None
        self.kills: list[str] = []

    def spawn(self, process: GameProcess, command: list[str], extra: dict[str, str]) -> int:
        if self.broken is not None:
            raise self.broken
        child = FakeTransport(process, 1000 + len(self.children))
        process.makeConnection(child)
        process.kill = lambda how: self._kill(child, how)  # type: ignore[method-assign]
        self.children.append(child)
        self.commands.append(command)
        self.extra.append(extra)
        return child.pid

    def _kill(self, child: FakeTransport, how: str) -> None:
        self.kills.append(how)
        if not child.process.over and (how == "KILL" or not getattr(child, "deaf", False)):
            child.end(by=signal.SIGKILL if how == "KILL" else signal.SIGTERM)


class SupervisorCase(SynchronousTestCase):
    def make(self, **changes: Any) -> Supervisor:
        self.clock, self.spawner = Clock(), FakeSpawner()
        parts: dict[str, Any] = {
            "clock": self.clock,
            "now": self.clock.seconds,
            "starter": self.spawner,
            "program": Program("/srv/game", key=Secret("hush")),
            "table": HuntTable.load("/Game/Maps/city/a_01_persistent"),
            "fleet": Fleet(8770, 8777),
            "host": "203.0.113.9",
            "is_bound": lambda port: False,
            "readiness": Readiness(self.clock),
        }
        supervisor = Supervisor(**(parts | changes))
        # a fake child has no /proc entry: what its protocol says decides
        self.patch(GameProcess, "alive", property(lambda process: not process.over))
        return supervisor

    def ask(self, supervisor: Supervisor, wish: LaunchRequest) -> Deferred[GameServer]:
        return Deferred.fromCoroutine(supervisor.hand_out(wish))


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
                self.failureResultOf(self.ask(supervisor, HUNT), Unlaunchable)
        self.assertTrue(any("/srv/game" in str(event) for event in events))
        self.assertFalse(any("hush" in str(event) for event in events))
        self.spawner.broken = None
        self.assertEqual(self.successResultOf(self.ask(supervisor, HUNT)).port, 8775)
        self.failureResultOf(self.ask(supervisor, HUNT), NoCapacity)

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
        self.patch(FakeTransport, "reapProcess", lambda child: child.end(3))
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


class LaunchKeyTests(SupervisorCase):
    """The key in the process list counts only while its game server lives."""

    def launched(self) -> list[str]:
        return [command[1] for command in self.spawner.commands]

    def known(self, supervisor: Supervisor, key: str) -> bool:
        page = Browser(self, front_door(supervisor))(
            "GET", f"/gameservers/key?sha256={fingerprint(key)}"
        )
        self.assertEqual(page.status, 200)
        return bool(page.json["known"])

    def test_each_launch_has_a_key_of_its_own_which_ends_with_it(self) -> None:
        supervisor = self.make(program=Program("/srv/game", key=Secret("hush"), launch_keys=True))
        for wish in (CITY, HUNT):
            self.successResultOf(self.ask(supervisor, wish))
        city, hunt = self.launched()
        self.assertRegex(city, r"^[0-9a-f]{64}$")
        self.assertNotEqual(city, hunt)
        self.assertEqual([self.known(supervisor, one) for one in (city, hunt)], [True, True])
        self.spawner.children[1].end()
        self.assertEqual([self.known(supervisor, one) for one in (city, hunt)], [True, False])
        self.assertFalse(any(city in str(one) for one in supervisor.records()))
        self.assertNotIn(fingerprint(city), repr(supervisor.fleet))

    def test_a_dead_one_whose_end_went_unnoticed_opens_nothing(self) -> None:
        supervisor = self.make(program=Program("/srv/game", launch_keys=True))
        self.successResultOf(self.ask(supervisor, CITY))
        self.spawner.children[0].process.over = True
        self.assertFalse(self.known(supervisor, self.launched()[0]))

    def test_the_shared_key_is_not_one_of_a_launch(self) -> None:
        supervisor = self.make()
        self.successResultOf(self.ask(supervisor, CITY))
        self.assertEqual(self.launched(), ["hush"])
        self.assertFalse(self.known(supervisor, "hush"))
        for query in ("", "?sha256=", "?sha256=x"):
            page = Browser(self, front_door(supervisor))("GET", f"/gameservers/key{query}")
            self.assertEqual(page.json, {"known": False})


class RouteTests(SupervisorCase):
    def setUp(self) -> None:
        self.supervisor = self.make()
        self.browse = Browser(self, front_door(self.supervisor))

    def post(self, body: Any, **sent: Any) -> Any:
        return self.browse("POST", PATH, json=body, **sent)

    @proves(
        "started by a matchmaking call; answers as soon as it is spawned",
        "deploy: CITY: the city server; anything else: the city",
        "deploy: POST /api/matchmaker/handle-matchmaking-for-player",
    )
    def test_the_city_is_handed_out_with_a_number_for_a_port(self) -> None:
        for body in ({"GameMode": "CITY"}, {}, {"GameMode": "ISLAND", "GameArgs": " "}):
            self.assertEqual(self.post(body).json, {"host": "203.0.113.9", "port": 8777})

    @proves("deploy: 400 bad_request: the input is checked here again", "Deploy server errors")
    def test_bad_input_is_400_in_words(self) -> None:
        for body in ({"HuntId": "a b"}, {"ExpectedPlayers": ["a:b"]}, [], {"GameMode": 7}):
            page = self.post(body)
            self.assertEqual((page.status, page.json["error"]), (400, "bad_request"))
            self.assertTrue(page.json["message"])
        self.assertEqual(self.browse("POST", PATH, data=b"{").status, 400)

    @proves(
        "deploy: 500 no_game_server",
        "deploy: 503 capacity_unavailable, reason memory or ports, Retry-After: 10",
        "Deploy server errors",
        "limit: Deploy server: JSON body 100 kB, launches spaced, capacity hint 10 s",
    )
    def test_no_server_is_500_and_no_room_503(self) -> None:
        page = self.post({"GameMode": "ISLAND", "HuntId": "Nope", "ExpectedPlayers": ["UID-a"]})
        self.assertEqual((page.status, page.json), (500, {"error": "no_game_server"}))
        self.supervisor.guard = MemoryGuard(10, 1, 1, 60.0, lambda: 5.0)
        page = self.post({"GameMode": "CITY"})
        self.assertEqual(
            (page.status, page.json), (503, {"error": "capacity_unavailable", "reason": "memory"})
        )
        self.assertEqual(page.headers["retry-after"], "10")

    @proves(
        "deploy: 403 for callers not on loopback or with a proxy header", "Deploy server errors"
    )
    def test_any_proxy_header_is_403(self) -> None:
        for name in (
            "X-Svc-Gateway",
            "X-Forwarded-For",
            "X-Forwarded-Host",
            "X-Forwarded-Proto",
            "Forwarded",
            "X-Real-IP",
            "Via",
        ):
            for method, path in (
                ("POST", PATH),
                ("GET", "/gameservers"),
                ("GET", "/gameservers/key"),
            ):
                page = self.browse(method, path, headers={name: "x"})
                self.assertEqual((page.status, page.body), (403, b""))

    @proves("deploy: GET /gameservers")
    def test_game_servers_are_listed_while_they_live(self) -> None:
        self.post({"GameMode": "CITY"})
        [record] = self.browse("GET", "/gameservers").json["servers"]
        self.assertEqual((record["kind"], record["port"]), ("city", 8777))
        self.spawner.children[-1].end(by=9)
        self.assertEqual(self.browse("GET", "/gameservers").json, {"servers": []})

    @proves("deploy: unknown path: HTML 404")
    def test_an_unknown_path_is_an_html_404(self) -> None:
        page = self.browse("GET", "/nope")
        self.assertEqual(page.status, 404)
        self.assertTrue(page.headers["content-type"].startswith("text/html"))


class ProgramTests(SynchronousTestCase):
    @proves("deploy: 500 no_game_server")
    def test_a_missing_plain_or_folder_program_is_found_before_the_fork(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        plain = Path(folder.name, "plain")
        plain.write_text("x")
        for path, error in (
            (folder.name, IsADirectoryError),
            (str(plain), PermissionError),
            ("/nope", FileNotFoundError),
            ("", OSError),
        ):
            with self.assertRaises(error):
                check_program(path)
