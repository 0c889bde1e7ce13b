"""The command line: each command imports only the modules that it needs."""

import re
from errno import EACCES
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import click
from click.shell_completion import BashComplete, ShellComplete
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.main import COMMANDS, main
from tests.ctl.command import svcctl
from tests.ctl.test_thin import commands


class MainTests(SynchronousTestCase):
    def test_a_mistyped_command_is_named(self) -> None:
        ran = svcctl("bann", "Alpha")
        self.assertEqual(ran.status, 2)
        self.assertIn("bann", ran.err)

    def test_every_command_has_a_whole_summary_of_one_line(self) -> None:
        output = svcctl("--help").out
        for name in ("announce", "db", "gameserver-key", "status"):
            self.assertIn(f"  {name} ", output)
        groups = ((name, main.get_command(click.Context(main), name)) for name in COMMANDS)
        for path, command in (*commands(), *groups):
            assert command is not None
            summary = command.get_short_help_str(200)
            self.assertTrue(0 < len(summary) <= 55, f"{path}: {summary}")
            self.assertFalse(summary.endswith("..."), f"{path}: {summary}")

    def test_a_folder_that_is_missing_or_has_no_host_is_named(self) -> None:
        empty = self.enterContext(TemporaryDirectory())
        for words in (("status", "--config", f"{empty}/x"), ("doctor", "--config", f"{empty}/x")):
            self.assertIn(f"there is no folder {empty}/x; make a host", svcctl(*words).line)
        self.assertIn(
            "is not the folder of a host: it contains no file",
            svcctl("doctor", "--config", empty).line,
        )

    def test_a_folder_that_only_another_user_may_read_is_one_line(self) -> None:
        """The error is simulated, since root can read everything."""
        denied = PermissionError(EACCES, "Permission denied", "/srv/game/metagame.env")
        with mock.patch.object(Path, "is_file", side_effect=denied):
            ran = svcctl("up", "--yes", "/srv/game")
        line = "svcctl: /srv/game/metagame.env: Permission denied; run this as the owner"
        self.assertEqual((ran.status, ran.line), (1, f"{line} of the file"))
        with mock.patch.object(Path, "is_file", side_effect=FileNotFoundError("ours")):
            self.assertRaises(FileNotFoundError, svcctl, "up", "--yes", "/srv/game")


INSTALL = Path(__file__).parents[2] / "docs" / "owners" / "install.md"


class CompletionTests(SynchronousTestCase):
    def test_the_documented_lines_print_a_script_for_each_shell(self) -> None:
        text = INSTALL.read_text()
        variable, first = re.findall(r"\$\((\w+)=(\w+_source) svcctl\)", text)[0]
        shells = [first, *re.findall(r"`((?:zsh|fish)_source)`", text)]
        self.assertEqual(shells, ["bash_source", "zsh_source", "fish_source"])
        # starts this machine's bash to read its version
        patched = mock.patch.object(BashComplete, "_check_version", lambda *_: None)
        patched.start()
        self.addCleanup(patched.stop)
        for word in shells:
            ran = CliRunner().invoke(main, env={variable: word}, prog_name="svcctl")
            self.assertEqual(ran.exit_code, 0, ran.output)
            self.assertIn("_svcctl_completion", ran.output)

    def test_commands_and_their_options_are_completed(self) -> None:
        done = ShellComplete(main, {}, "svcctl", "_SVCCTL_COMPLETE")
        commands = {item.value for item in done.get_completions([], "")}
        self.assertLessEqual({"backup", "capacity", "doctor", "init"}, commands)
        self.assertEqual([item.value for item in done.get_completions([], "doct")], ["doctor"])
        completions = [item.value for item in done.get_completions(["backup"], "n")]
        self.assertIn("now", completions)
        self.assertIn("--config", [item.value for item in done.get_completions(["doctor"], "--")])
