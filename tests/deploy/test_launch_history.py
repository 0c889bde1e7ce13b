"""The history of launches, and the usage of running game servers."""

import signal
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.family import ProcessInfo
from svcserver.deploy.hunts import Unlaunchable
from svcserver.deploy.launch_history import (
    MATCHES_BYTES,
    MAX_BYTES,
    MAX_LAUNCHES,
    MOST_MATCHES,
    EndedMatches,
    LaunchHistory,
)
from svcserver.deploy.owner_actions import OwnerActions
from svcserver.deploy.service import STATE, make_state_folder
from svcserver.deploy.usage import PAGE, READ_S, TICKS_PER_S, UsageMeter
from tests.deploy.supervised import CITY, HUNT, SupervisorCase, owners_browser


class EndedMatchesTests(SupervisorCase):
    def setUp(self) -> None:
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "matches.log"

    def test_matches_survive_a_restart(self) -> None:
        ended = EndedMatches(self.path)
        for match in ("one", "two", "one", ""):
            ended.add(match)
        again = EndedMatches(self.path)
        self.assertEqual([word in again for word in ("one", "two", "three", "")],
                         [True, True, False, False])  # fmt: skip
        self.assertEqual(self.path.read_text(), "one\ntwo\n")

    def test_only_the_newest_matches_are_kept(self) -> None:
        ended = EndedMatches(self.path)
        names = [f"{number:036}" for number in range(3 * MOST_MATCHES)]
        for name in names:
            ended.add(name)
        for matches in (ended, EndedMatches(self.path)):
            self.assertEqual(sum(name in matches for name in names), MOST_MATCHES)
            self.assertIn(names[-MOST_MATCHES], matches)
        size = sum(path.stat().st_size for path in self.path.parent.iterdir())
        self.assertLess(size, 2 * MATCHES_BYTES + 100)


class StateFolderTests(SupervisorCase):
    def test_folder_is_made_and_a_failure_is_logged(self) -> None:
        with tempfile.TemporaryDirectory() as folder, chdir(folder), capturedLogs() as events:
            make_state_folder()
            self.assertEqual(STATE.stat().st_mode & 0o777, 0o700)
            STATE.rmdir()
            STATE.touch()
            make_state_folder()
        self.assertEqual(len(events), 1)


class LaunchHistoryTests(SupervisorCase):
    def setUp(self) -> None:
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "launches.log"
        self.supervisor = self.make(history=LaunchHistory(self.path))

    def shown(self) -> list[tuple[str, str, str]]:
        page = owners_browser(self, self.supervisor)("GET", "/gameservers/history")
        launches: list[dict[str, Any]] = page.json["launches"]
        return [(entry["kind"], entry["how"], entry["reason"]) for entry in launches]

    def test_each_end_is_listed_with_its_exit_code(self) -> None:
        for request in (CITY, HUNT, HUNT):
            self.successResultOf(self.ask(self.supervisor, request))
        self.clock.advance(5)
        city, first, second = self.spawner.children
        first.end(0)
        second.end(3)
        city.end(by=signal.SIGSEGV)
        expected = [("city", "signal SIGSEGV", ""), ("hunt", "code 3", ""), ("hunt", "code 0", "")]
        self.assertEqual(self.shown(), expected)
        again = LaunchHistory(self.path)
        self.assertEqual(again.newest(), self.supervisor.history.newest())
        self.assertEqual(again.newest()[0]["endedAt"], "1970-01-01T00:00:05.000Z")
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o600)

    def test_the_history_states_why_a_server_ended(self) -> None:
        city = self.successResultOf(self.ask(self.supervisor, CITY))
        self.successResultOf(Deferred.fromCoroutine(OwnerActions(self.supervisor).stop(city.id)))
        hunt = self.successResultOf(self.ask(self.supervisor, HUNT))
        OwnerActions(self.supervisor).end_frozen(hunt)
        self.assertEqual(
            self.shown(),
            [
                ("hunt", "signal SIGKILL", "it was frozen"),
                ("city", "signal SIGTERM", "stopped by staff"),
            ],
        )

    def test_a_failed_launch_is_listed_once_however_often_it_fails(self) -> None:
        self.spawner.broken = OSError(2, "No such file or directory")
        for _ in range(3):
            self.failureResultOf(self.ask(self.supervisor, CITY), Unlaunchable)
            self.clock.advance(60)
        reason = "the game server could not be started: /srv/game: No such file or directory"
        self.assertEqual(self.shown(), [("city", "failed", reason)])
        self.assertEqual(self.supervisor.history.newest()[0]["endedAt"][:19], "1970-01-01T00:02:00")

    def test_the_history_is_bounded_and_survives_damage(self) -> None:
        hunt = self.successResultOf(self.ask(self.supervisor, HUNT))
        for number in range(3 * MAX_LAUNCHES):
            self.supervisor.history.ended(hunt, number, f"code {number}", "x" * 9_000)
        self.assertEqual(len(self.shown()), MAX_LAUNCHES)
        self.assertLess(self.path.stat().st_size, 2 * MAX_BYTES)
        with self.path.open("ab") as file:
            file.write(b'{"id": 1}\n[1]\n{torn\n\xff\n')
        self.assertGreater(len(LaunchHistory(self.path).newest()), MAX_LAUNCHES - 9)


class UsageMeterTests(SynchronousTestCase):
    def process(self, pid: int, ticks: int, started: int = 1, pages: int = 10) -> ProcessInfo:
        return ProcessInfo(pid, "game", 1, 1, 1, started, False, ticks, pages)

    def test_cpu_time_counts_from_one_reading_to_the_next(self) -> None:
        clock = Clock()
        meter = UsageMeter(clock)
        self.assertTrue(meter.is_due())
        meter.measure_servers({"a": [self.process(1, 500), self.process(2, 100)]})
        self.assertFalse(meter.is_due())
        use = meter.latest()["a"]
        self.assertEqual((use.memory_bytes, use.cpu_percent), (20 * PAGE, None))
        clock.advance(READ_S)
        self.assertTrue(meter.is_due())
        half = int(TICKS_PER_S * READ_S / 2)
        meter.measure_servers({"a": [self.process(1, 500 + half), self.process(3, 900)], "b": []})
        use = meter.latest()["a"]
        self.assertEqual((use.memory_bytes, use.cpu_percent), (20 * PAGE, 50.0))
        clock.advance(READ_S)
        meter.measure_servers(
            {"a": [self.process(1, 5, started=2)]}
        )  # another process with the pid
        self.assertEqual(meter.latest()["a"].cpu_percent, None)
        self.assertNotIn("b", meter.latest())
