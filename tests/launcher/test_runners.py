"""Runners of a Windows game: found, or as the player chooses."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher import runners
from svcserver.launcher.command import DOCUMENTED
from svcserver.launcher.runners import Runner, chosen
from tests.launcher.around import LauncherCase, new_folder


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
