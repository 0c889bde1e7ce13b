"""Starting a game, and ending it with all its child processes, on each operating system."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher import runners
from svcserver.launcher.command import DOCUMENTED
from svcserver.launcher.playing import GIVE_UP_S, LOOK_S, PATIENCE_S, Game, ProcessGroup, ProcessJob
from svcserver.launcher.runners import Runner, chosen
from tests.launcher.around import FakeProcess, LauncherCase, new_folder


@define
class Started:
    """A fake ``subprocess.Popen``."""

    pid: int = 4711
    calls: list[Any] = field(factory=list)
    status: int | None = None

    def poll(self) -> int | None:
        return self.status

    def kill(self) -> None:
        self.calls.append("kill")


@define
class FakeJob:
    """A fake Windows job with these processes."""

    ids: list[int]
    calls: list[Any] = field(factory=list)

    def processes(self) -> list[int]:
        return self.ids

    def end(self) -> None:
        self.calls.append("end")
        self.ids = []


class StuckProcess(FakeProcess):
    """A fake game process that the system cannot end."""

    def kill(self) -> None:
        self.calls.append("kill")


class EndingTests(SynchronousTestCase):
    def test_posix_signals_go_to_the_whole_group(self) -> None:
        started: Any = Started()
        group = ProcessGroup(started, lambda *call: started.calls.append(call))
        group.terminate()
        group.kill()
        self.assertTrue(group.leaves())
        numbers = (signal.SIGTERM, signal.SIGKILL, 0)
        self.assertEqual(started.calls, [(4711, number) for number in numbers])

    def test_signal_to_an_ended_group_is_no_error(self) -> None:
        for why in (ProcessLookupError, PermissionError):

            def refuse(pid: int, number: int, why: type[OSError] = why) -> None:
                raise why

            started: Any = Started()
            group = ProcessGroup(started, refuse)
            group.terminate()
            group.kill()
            self.assertFalse(group.leaves())

    def test_windows_game_ends_with_the_last_process_of_its_job(self) -> None:
        started: Any = Started(status=0)
        job: Any = FakeJob([4712])
        game = ProcessJob(started, job, job.calls.append)
        self.assertIsNone(game.poll())
        game.terminate()
        game.kill()
        self.assertEqual((job.calls, started.calls), ([{4711, 4712}, "end"], ["kill"]))
        self.assertEqual((game.poll(), game.leaves()), (0, False))

    def test_windows_game_without_a_job_ends_with_its_first_process(self) -> None:
        """Windows refuses the job if another program's job has incompatible limits."""
        started: Any = Started()
        job: Any = FakeJob([])
        game = ProcessJob(started, job, job.calls.append)
        self.assertIsNone(game.poll())
        game.terminate()
        game.kill()
        self.assertEqual((job.calls, started.calls), ([{4711}, "end"], ["kill"]))

    def test_waiting_for_the_end_waits_until_a_deaf_game_is_killed(self) -> None:
        clock, process = Clock(), FakeProcess(())
        game = Game(clock, lambda _: None, lambda *_: process)
        self.successResultOf(game.stop())
        game.start(["/bin/sh"], "", {})
        ends = [game.stop(), game.stop()]
        clock.pump([LOOK_S] * round(PATIENCE_S / LOOK_S - 1))
        self.assertNoResult(ends[0])
        clock.pump([LOOK_S] * 2)
        for end in ends:
            self.successResultOf(end)
        self.assertEqual(process.calls, ["terminate", "kill"])
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_waiting_for_a_game_that_cannot_be_killed_ends(self) -> None:
        clock, process = Clock(), StuckProcess(())
        game = Game(clock, lambda _: None, lambda *_: process)
        game.start(["/bin/sh"], "", {})
        end = game.stop()
        clock.pump([LOOK_S] * round(GIVE_UP_S / LOOK_S - 1))
        self.assertNoResult(end)
        clock.pump([LOOK_S] * 2)
        self.successResultOf(end)
        self.assertIn("kill", process.calls)
        self.assertEqual(clock.getDelayedCalls(), [])


class FindingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.home = new_folder(self)
        self.path = {"PATH": str(self.home / "bin")}

    def program(self, *parts: str) -> Path:
        path = self.home.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    def test_the_newest_proton_is_taken_before_wine(self) -> None:
        common = (".local/share/Steam/steamapps/common",)
        self.assertIsNone(runners.find("linux", self.path, self.home))
        wine = self.program("bin", "wine")
        self.assertEqual(runners.find("linux", self.path, self.home), Runner("Wine", str(wine)))
        self.program(*common, "Proton 9.0 (Beta)", "proton")
        newest = self.program(*common, "Proton 10.0", "proton")
        self.program(*common, "Other game", "proton")
        runner = runners.find("linux", self.path, self.home)
        assert runner is not None
        self.assertEqual((runner.name, runner.command), ("Proton 10.0", f"'{newest}' run"))
        game = self.home / "game"
        runner.prepare(game)
        environ = runner.environ(game)
        self.assertTrue(Path(environ["STEAM_COMPAT_DATA_PATH"]).is_dir())
        self.assertTrue(environ["STEAM_COMPAT_CLIENT_INSTALL_PATH"].endswith("Steam"))
        self.assertIsNone(runners.find("win32", self.path, self.home))

    def test_only_a_windows_program_gets_the_found_runner(self) -> None:
        wine = Runner("Wine", "/usr/bin/wine")
        self.assertIs(chosen("", DOCUMENTED, "game.exe", wine), wine)
        self.assertIsNone(chosen("", "/bin/game", "game.exe", wine))
        self.assertIsNone(chosen("", 'a "', "game.exe", wine))
        self.assertIsNone(chosen("", DOCUMENTED, "Game/run.sh", wine))
        self.assertIs(chosen("", DOCUMENTED, "Game/Hunt.EXE", wine), wine)
        self.assertIsNone(chosen("None", DOCUMENTED, "game.exe", wine))
        self.assertIsNone(chosen("", DOCUMENTED, "game.exe", None))
        own = chosen("gamemode wine", DOCUMENTED, "game.exe", wine)
        assert own is not None
        self.assertEqual((own.command, own.environ(self.home)), ("gamemode wine", {}))


class StartTests(LauncherCase):
    def test_game_is_started_with_the_found_runner(self) -> None:
        member = self.registered({})
        self.launcher.runner = Runner("Proton", "/bin/sh run", str(self.folder))
        runner = member.runner
        assert runner is not None
        self.assertEqual(runner.command, "/bin/sh run")
        member.inputs.play()
        [game] = self.processes
        self.assertEqual(list(game.arguments[:3]), ["/bin/sh", "run", f"{member.folder}/game.exe"])
        self.assertTrue((member.folder / ".svc-launcher" / "proton").is_dir())

    def test_launcher_stops_when_its_game_has_ended(self) -> None:
        self.launcher.runner = Runner("Proton", "/bin/sh run", str(self.folder))
        self.registered({}).inputs.play()
        [game] = self.processes
        stopped = self.launcher.stopService()
        self.assertEqual(game.calls, ["terminate"])
        self.clock.advance(LOOK_S)
        self.assertNoResult(stopped)
        game.status = 0
        self.clock.advance(LOOK_S)
        self.successResultOf(stopped)
