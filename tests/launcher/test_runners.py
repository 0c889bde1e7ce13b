"""What is put in front of a Windows game: found by itself, or as the player says."""

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
        found = runners.find("linux", self.path, self.home)
        assert found is not None
        self.assertEqual((found.name, found.command), ("Proton 10.0", f"'{newest}' run"))
        game = self.home / "game"
        found.prepare(game)
        environ = found.environ(game)
        self.assertTrue(Path(environ["STEAM_COMPAT_DATA_PATH"]).is_dir())
        self.assertTrue(environ["STEAM_COMPAT_CLIENT_INSTALL_PATH"].endswith("Steam"))
        self.assertIsNone(runners.find("win32", self.path, self.home))

    def test_only_a_windows_program_gets_what_was_found(self) -> None:
        found = Runner("Wine", "/usr/bin/wine")
        self.assertIs(chosen("", DOCUMENTED, "game.exe", found), found)
        self.assertIsNone(chosen("", "/bin/game", "game.exe", found))
        self.assertIsNone(chosen("", 'a "', "game.exe", found))
        self.assertIsNone(chosen("", DOCUMENTED, "Game/run.sh", found))
        self.assertIs(chosen("", DOCUMENTED, "Game/Hunt.EXE", found), found)
        self.assertIsNone(chosen("None", DOCUMENTED, "game.exe", found))
        self.assertIsNone(chosen("", DOCUMENTED, "game.exe", None))
        own = chosen("gamemode wine", DOCUMENTED, "game.exe", found)
        assert own is not None
        self.assertEqual((own.command, own.environ(self.home)), ("gamemode wine", {}))


class StartTests(LauncherCase):
    def test_the_game_is_started_with_what_was_found(self) -> None:
        member = self.registered({})
        self.launcher.runner = Runner("Proton", "/bin/sh run", str(self.folder))
        found = member.runner
        assert found is not None
        self.assertEqual(found.command, "/bin/sh run")
        member.inputs.play()
        [game] = self.processes
        self.assertEqual(list(game.arguments[:3]), ["/bin/sh", "run", f"{member.folder}/game.exe"])
        self.assertTrue((member.folder / ".svc-launcher" / "proton").is_dir())
