from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.processes import PROCESSES, started_at
from svcserver.stack.backups import Nightly
from svcserver.stack.children import Children
from svcserver.stack.components import SCRATCH, BadHost, components, environment
from svcserver.stack.lines import LONGEST, Lines
from svcserver.stack.rolling import STATE_FILE
from svcserver.stack.service import Options, makeService
from tests.ctl.command import nowhere
from tests.support.proves import proves


def another_process() -> tuple[int, int]:
    """One that runs and is not this one, and when it started."""
    for pid in sorted(int(one.name) for one in PROCESSES.iterdir() if one.name.isdecimal()):
        started = started_at(pid)
        if started is not None and pid != os.getpid():
            return pid, started
    raise AssertionError("this process runs alone")


HOSTILE = "\x1b]0;owned\x07\nsvc-stack: all is well"


class ComponentTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = nowhere(self)
        self.folder.mkdir(parents=True)

    def host(self, *names: str) -> None:
        for name in names:
            (self.folder / f"{name}.env").write_text("")

    @proves("svc-stack: one child per component")
    def test_they_start_in_the_order_in_which_they_need_each_other(self) -> None:
        self.host("gateway", "relay", "metagame", "allowlist", "content", "deploy")
        names = [one.name for one in components(self.folder)]
        self.assertEqual(names, ["metagame", "deploy", "content", "allowlist", "gateway"])

    @proves("svc-stack: --with-relay")
    def test_the_relay_belongs_on_players_machines(self) -> None:
        self.host("metagame", "relay")
        self.assertEqual([one.name for one in components(self.folder)], ["metagame"])
        both = components(self.folder, with_relay=True)
        self.assertEqual([one.name for one in both], ["metagame", "relay"])

    @proves("svc-stack: one child per component")
    def test_a_component_without_a_file_is_left_out(self) -> None:
        self.host("metagame", "deploy")
        self.assertEqual([one.name for one in components(self.folder)], ["metagame", "deploy"])

    def test_a_folder_without_a_metagame_is_no_host(self) -> None:
        self.host("deploy")
        self.assertRaises(BadHost, components, self.folder)
        options = Options()
        why = self.assertRaises(SystemExit, options.parseOptions, ["--config", str(self.folder)])
        self.assertIn("svcctl init", str(why))
        self.assertNotIn("\n", str(why))

    def test_a_folders_hostile_name_is_shown_escaped(self) -> None:
        folder = self.folder / HOSTILE
        options = Options()
        error = self.assertRaises(SystemExit, options.parseOptions, ["--config", str(folder)])
        self.assertTrue(str(error).isprintable(), str(error))
        self.assertIn(r"\x1b]0;owned\x07", str(error))

    def test_a_host_that_another_stack_runs_is_left_to_it(self) -> None:
        self.host("metagame")
        another, started = another_process()
        said = {"pid": another, "started": started, "rolled": 0, "well": True}
        (self.folder / STATE_FILE).write_bytes(json.dump(said))
        command = ["--config", str(self.folder)]
        why = str(self.assertRaises(SystemExit, Options().parseOptions, command))
        self.assertIn(f"runs this host already, process {another}; stop that one first", why)
        for its in ({"pid": os.getpid(), "started": started_at(os.getpid())}, {"started": 1}):
            (self.folder / STATE_FILE).write_bytes(json.dump({**said, **its}))
            Options().parseOptions(command)

    @proves("METRICS_PORT of every service, on loopback only")
    def test_a_bad_port_for_figures_ends_the_start_with_one_line(self) -> None:
        self.host("metagame")
        self.patch(os, "environ", {"METRICS_PORT": "0"})
        options = Options()
        why = self.assertRaises(SystemExit, options.parseOptions, ["--config", str(self.folder)])
        self.assertIn("METRICS_PORT must be a whole number from 1 to 65535", str(why))

    @proves("svc-stack: only PATH HOME LANG TZ and its own env file")
    def test_a_child_sees_four_variables_and_no_more(self) -> None:
        kept = {"PATH": "/bin", "HOME": "/h", "LANG": "C", "TZ": "UTC"}
        self.assertEqual(environment({**kept, "PORT": "1", "DATABASE_URL": "x"}), kept)
        self.assertEqual(environment({"PORT": "1"}), {})
        self.assertEqual(environment({**kept, "TMPDIR": "/big"}), kept)

    def test_the_nightly_backup_sees_where_its_drill_has_room_too(self) -> None:
        there = {"PATH": "/bin", "TMPDIR": "/big"}
        self.assertEqual(environment({**there, "PORT": "1"}, SCRATCH), there)
        self.host("metagame")
        self.patch(os, "environ", there)
        options = Options()
        options.parseOptions(["--config", str(self.folder)])
        top = makeService(options, MemoryReactorClock())
        [night] = [one for one in top if isinstance(one, Nightly)]
        self.assertEqual(night.environ, there)
        [children] = [one for one in top if isinstance(one, Children)]
        self.assertEqual(children.environ, {"PATH": "/bin"})


class LinesTests(SynchronousTestCase):
    @proves("svc-stack: output prefixed with the name")
    @given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=20))
    @settings(max_examples=50, deadline=None)
    def test_the_pieces_never_change_the_lines(self, data: bytes, cuts: list[int]) -> None:
        whole: list[str] = []
        lines = Lines(whole.append)
        lines.feed(data)
        lines.end()
        cut: list[str] = []
        pieces, rest = Lines(cut.append), data
        for size in cuts:
            pieces.feed(rest[:size])
            rest = rest[size:]
        pieces.feed(rest)
        pieces.end()
        self.assertEqual(cut, whole)

    def test_a_line_without_an_end_does_not_fill_the_memory(self) -> None:
        said: list[str] = []
        lines = Lines(said.append)
        lines.feed(b"x" * (LONGEST * 2 + 5))
        self.assertEqual([len(one) for one in said], [LONGEST, LONGEST])
        lines.end()
        self.assertEqual(said[-1], "x" * 5)
