import os

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.backup_settings import BackupSettings
from svcserver.kernel.processes import PROCESSES, started_at
from svcserver.stack.backups import Nightly
from svcserver.stack.children import Children
from svcserver.stack.components import SCRATCH, BadHost, components, environment
from svcserver.stack.lines import LONGEST, Lines
from svcserver.stack.rolling import STATE_FILE
from svcserver.stack.service import Options, makeService, overridden
from tests.ctl.command import nowhere
from tests.support.proves import proves


def another_process() -> tuple[int, int]:
    """Return the pid of another running process, and when it started."""
    for pid in sorted(int(entry.name) for entry in PROCESSES.iterdir() if entry.name.isdecimal()):
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
    def test_components_start_in_the_order_of_their_needs(self) -> None:
        self.host("gateway", "relay", "metagame", "allowlist", "content", "deploy")
        names = [component.name for component in components(self.folder)]
        self.assertEqual(names, ["metagame", "deploy", "content", "allowlist", "gateway"])

    @proves("svc-stack: --with-relay")
    def test_relay_starts_only_on_request(self) -> None:
        self.host("metagame", "relay")
        self.assertEqual([component.name for component in components(self.folder)], ["metagame"])
        both = components(self.folder, with_relay=True)
        self.assertEqual([component.name for component in both], ["metagame", "relay"])

    @proves("svc-stack: one child per component")
    def test_a_component_without_a_file_is_left_out(self) -> None:
        self.host("metagame", "deploy")
        self.assertEqual(
            [component.name for component in components(self.folder)], ["metagame", "deploy"]
        )

    def test_a_folder_without_a_metagame_is_no_host(self) -> None:
        self.host("deploy")
        self.assertRaises(BadHost, components, self.folder)
        options = Options()
        why = self.assertRaises(SystemExit, options.parseOptions, ["--config", str(self.folder)])
        self.assertIn("svcctl init", str(why))
        self.assertNotIn("\n", str(why))

    def test_hostile_folder_name_is_escaped(self) -> None:
        folder = self.folder / HOSTILE
        options = Options()
        error = self.assertRaises(SystemExit, options.parseOptions, ["--config", str(folder)])
        self.assertTrue(str(error).isprintable(), str(error))
        self.assertIn(r"\x1b]0;owned\x07", str(error))

    def test_second_stack_on_a_host_is_refused(self) -> None:
        self.host("metagame")
        another, started = another_process()
        state = {"pid": another, "started": started, "rolled": 0, "well": True}
        (self.folder / STATE_FILE).write_bytes(json.dump(state))
        command = ["--config", str(self.folder)]
        why = str(self.assertRaises(SystemExit, Options().parseOptions, command))
        self.assertIn(f"already runs this host (pid {another}). Stop it first", why)
        for its in ({"pid": os.getpid(), "started": started_at(os.getpid())}, {"started": 1}):
            (self.folder / STATE_FILE).write_bytes(json.dump({**state, **its}))
            Options().parseOptions(command)

    @proves("METRICS_PORT of every service, on loopback only")
    def test_bad_metrics_port_ends_the_start_with_one_line(self) -> None:
        self.host("metagame")
        self.patch(os, "environ", {"METRICS_PORT": "0"})
        options = Options()
        why = self.assertRaises(SystemExit, options.parseOptions, ["--config", str(self.folder)])
        self.assertIn("METRICS_PORT must be a whole number from 1 to 65535", str(why))

    @proves("svc-stack: only PATH HOME LANG TZ and its own env file")
    def test_child_inherits_only_four_variables(self) -> None:
        inherited = {"PATH": "/bin", "HOME": "/h", "LANG": "C", "TZ": "UTC"}
        self.assertEqual(environment({**inherited, "PORT": "1", "DATABASE_URL": "x"}), inherited)
        self.assertEqual(environment({"PORT": "1"}), {})
        self.assertEqual(environment({**inherited, "TMPDIR": "/big"}), inherited)

    def test_nightly_backup_also_inherits_its_own_settings(self) -> None:
        there = {"PATH": "/bin", "TMPDIR": "/big"}
        self.assertEqual(environment({**there, "PORT": "1"}, SCRATCH), there)
        there |= {"BACKUP_KEEP_DAYS": "30", "BACKUP_PASSPHRASE": "a long passphrase"}
        shown = {"BACKUP_KEEP_DAYS": "30", "BACKUP_PASSPHRASE": None}
        self.assertEqual(overridden(there, BackupSettings), shown)
        blank = {"BACKUP_PASSPHRASE": ""}
        self.assertEqual(overridden(blank, BackupSettings), blank)
        self.host("metagame")
        self.patch(os, "environ", there)
        options = Options()
        options.parseOptions(["--config", str(self.folder)])
        top = makeService(options, MemoryReactorClock())
        [night] = [part for part in top if isinstance(part, Nightly)]
        self.assertEqual(night.environ, there)
        [children] = [part for part in top if isinstance(part, Children)]
        self.assertEqual(children.environ, {"PATH": "/bin"})


class LinesTests(SynchronousTestCase):
    @proves("svc-stack: output prefixed with the name")
    @given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=20))
    @settings(max_examples=50, deadline=None)
    def test_chunks_never_change_the_lines(self, data: bytes, cuts: list[int]) -> None:
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
        lines_read: list[str] = []
        lines = Lines(lines_read.append)
        lines.feed(b"x" * (LONGEST * 2 + 5))
        self.assertEqual([len(line) for line in lines_read], [LONGEST, LONGEST])
        lines.end()
        self.assertEqual(lines_read[-1], "x" * 5)
