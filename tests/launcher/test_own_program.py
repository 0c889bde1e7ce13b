"""The launcher's program: installed versions, locked files, and its entries in the system."""

import io
import os
import struct
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PureWindowsPath

from attrs import evolve
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher import crashes, main, words
from svcserver.launcher.crashes import write_report
from svcserver.launcher.locked_files import (
    PATIENCE_S,
    PAUSE_S,
    extended,
    long_path,
    patiently,
    plain_path,
)
from svcserver.launcher.own_program import (
    PackedProgram,
    UpdateFailed,
    WindowsProgram,
    own_program,
    unpacked_folder,
    windows_program,
)
from svcserver.launcher.page_guard import LATE_S, SILENT_S, OpenPages
from svcserver.launcher.places import Places, places_of
from svcserver.launcher.scheme import NoScheme, own_command
from svcserver.launcher.start_menu import StartMenu
from tests.launcher.around import new_folder
from tests.launcher.test_links import Registered

FILES = {"svc-launcher.exe": b"window", "svc-launcher-cli.exe": b"console", "app/a/b.py": b"code"}


def packed(files: Mapping[str, bytes], folder: str = "svc-launcher/") -> bytes:
    """Return a zip of these files."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in files.items():
            made.writestr(folder + name, content)
    return file.getvalue()


def altered(content: bytes, *, flags: int = 0, method: int = 0) -> bytes:
    """Return a zip with these flags and this compression method for all its files."""
    changed = bytearray(content)
    for mark, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        place = changed.find(mark)
        while place >= 0:
            changed[place + at : place + at + 4] = struct.pack("<HH", flags, method)
            place = changed.find(mark, place + 1)
    return bytes(changed)


def lay(folder: Path, files: Mapping[str, bytes] = FILES) -> None:
    """Write the program's files into ``folder``."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


class WindowsProgramTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = new_folder(self) / "Bjørn Żółw" / "program"
        self.source = new_folder(self) / "OneDrive - Jäger" / "svc-launcher"
        self.tried: list[Sequence[str]] = []
        self.line = "svc-launcher 0.3.0"
        lay(self.source, {**FILES, "holiday.jpg": b"a picture of the player"})

    def run_trial(self, command: Sequence[str]) -> str:
        self.tried.append(command)
        return self.line

    def program(self, version: str = "0.2.0", source: Path | None = None) -> WindowsProgram:
        return WindowsProgram(
            self.root, source or self.source, version, "svc-launcher.exe", self.run_trial
        )

    def names(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir() if path.is_dir())

    def text(self, name: str) -> str:
        """Return the version that the file contains, or "" if the file does not exist."""
        file = self.root / name
        return file.read_text() if file.exists() else ""

    @property
    def starter(self) -> list[str]:
        """Return the command line of the program whose path is the same for every version."""
        return [str(self.root / "svc-launcher.exe")]

    def try_next(self) -> None:
        """Do what the program with the fixed path does before it starts a version on trial."""
        (self.root / "next.txt").replace(self.root / "tried.txt")

    def test_first_start_copies_the_program_alone(self) -> None:
        program = self.program()
        self.assertEqual(program.command(), [str(self.source / "svc-launcher.exe")])
        program.install()
        self.assertEqual(self.names(), ["0.2.0"])
        self.assertEqual(self.text("current.txt"), "0.2.0")
        copy = self.root / "0.2.0"
        files = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
        self.assertEqual(files, set(FILES))
        self.assertEqual(program.newer_command(), [str(copy / "svc-launcher.exe")])
        installed = self.program(source=copy)
        self.assertTrue(installed.installed)
        self.assertEqual(installed.newer_command(), [])
        installed.install()
        self.assertEqual(self.names(), ["0.2.0"])

    def test_copy_of_a_read_only_folder_can_be_replaced(self) -> None:
        for path in self.source.rglob("*"):
            if path.is_file():
                path.chmod(0o444)
        self.program().install()
        copy = self.root / "0.2.0" / "svc-launcher.exe"
        self.assertTrue(copy.stat().st_mode & 0o200)

    def test_copy_with_a_missing_file_is_repaired(self) -> None:
        self.program().install()
        missing = self.root / "0.2.0" / "app" / "a" / "b.py"
        missing.unlink()
        self.program().install()
        self.assertEqual(missing.read_bytes(), b"code")
        self.assertEqual(self.names(), ["0.2.0"])

    def test_changed_file_of_the_same_size_is_repaired(self) -> None:
        self.program().install()
        changed = self.root / "0.2.0" / "app" / "a" / "b.py"
        changed.write_bytes(b"cade")
        self.program().install()
        self.assertEqual(changed.read_bytes(), b"code")

    def test_older_program_starts_the_installed_version(self) -> None:
        self.program("0.10.0").install()
        for version in ("0.9.9", "0.10.0.dev3", "0.10.0rc1"):
            command = [str(self.root / "0.10.0" / "svc-launcher.exe")]
            self.assertEqual(self.program(version).newer_command(), command)
            self.program(version).install()
        self.assertEqual(self.names(), ["0.10.0"])
        installed = self.program("0.10.0", self.root / "0.10.0")
        self.assertEqual(installed.newer_command(), [])

    def test_newer_program_starts_no_older_version(self) -> None:
        self.program("0.2.0").install()
        for version in ("0.2.1.dev1", "0.2.1", "0.3.0rc2"):
            # the program could not be copied
            self.assertEqual(self.program(version).newer_command(), [])

    def test_development_versions_are_installed_once(self) -> None:
        self.program("0.3.0.dev1").install()
        self.program("0.3.0.dev1").tidy()
        self.assertEqual(self.names(), ["0.3.0.dev1"])
        self.program("0.3.0.dev2").install()
        self.assertEqual(
            (self.text("current.txt"), self.text("next.txt")), ("0.3.0.dev1", "0.3.0.dev2")
        )
        self.program("unknown").install()
        self.assertEqual(self.names(), ["0.3.0.dev1", "0.3.0.dev2"])

    def update(self) -> WindowsProgram:
        """Install an update, and let the next start try it; return the new version."""
        self.program().install()
        self.program(source=self.root / "0.2.0").add("0.3.0", packed(FILES))
        self.try_next()
        return self.program("0.3.0", self.root / "0.3.0")

    def test_version_that_has_served_its_page_replaces_the_old_version(self) -> None:
        new = self.update()
        self.assertEqual(
            (new.newer_command(), new.failed, self.text("current.txt")), ([], "", "0.2.0")
        )
        new.confirm()
        self.assertEqual((self.text("current.txt"), self.text("tried.txt")), ("0.3.0", ""))
        old = self.program(source=self.root / "0.2.0")
        command = [str(self.root / "0.3.0" / "svc-launcher.exe")]
        self.assertEqual((old.newer_command(), old.failed), (command, ""))
        self.assertEqual(new.opening(), self.starter)

    def test_version_that_serves_no_page_is_given_up(self) -> None:
        self.update()
        old = self.program(source=self.root / "0.2.0")
        self.assertEqual((old.newer_command(), old.failed), ([], "0.3.0"))
        old.confirm()
        old.tidy()
        self.assertEqual((self.names(), old.failed), (["0.2.0"], "0.3.0"))
        again = self.program("0.3.0")  # the player has unzipped it
        again.install()
        self.assertEqual((self.text("next.txt"), again.newer_command()), ("", []))

    def test_trial_is_put_off_while_another_launcher_runs(self) -> None:
        new = self.update()
        new.give_way()
        self.assertEqual((self.text("next.txt"), self.text("tried.txt")), ("0.3.0", ""))
        new.give_way()
        self.assertEqual(self.program(source=self.root / "0.2.0").failed, "")

    def test_update_is_tried_before_it_is_installed(self) -> None:
        self.program().install()
        program = self.program(source=self.root / "0.2.0")
        program.add("0.3.0", packed(FILES))
        self.assertEqual(self.names(), ["0.2.0", "0.3.0"])
        [[tried, option]] = self.tried
        self.assertEqual((Path(tried).name, option), ("svc-launcher-cli.exe", "--version"))
        self.assertEqual((self.text("next.txt"), program.command()), ("0.3.0", self.starter))
        command = [str(self.root / "0.3.0" / "svc-launcher.exe")]
        # tried only once, or a broken version would be tried for ever
        for expected in (command, []):
            self.assertEqual(program.newer_command(), expected)
        self.assertEqual(self.text("tried.txt"), "0.3.0")

    def test_unusable_update_leaves_the_old_version_working(self) -> None:
        self.program().install()
        program = self.program(source=self.root / "0.2.0")
        without_window = {name: FILES[name] for name in FILES if name != "svc-launcher.exe"}
        for content, line in (
            (b"no zip", self.line),
            (packed(FILES)[:-40], self.line),
            (packed(FILES).replace(b"code", b"cade"), self.line),
            (altered(packed(FILES), flags=1), self.line),  # encrypted
            (altered(packed(FILES), method=99), self.line),
            (altered(packed(FILES), method=8), self.line),  # the data is not really compressed
            (packed(without_window), self.line),
            (packed(FILES), "svc-launcher 0.1.0"),
            (packed(FILES), ""),
        ):
            self.line = line
            with self.assertRaises(UpdateFailed):
                program.add("0.3.0", content)
            self.assertEqual(self.names(), ["0.2.0"])
            self.assertEqual(program.newer_command(), [])

    def test_update_that_unpacks_to_too_much_is_refused(self) -> None:
        self.patch(sys.modules["svcserver.launcher.own_program"], "MOST_UNPACKED", 10)
        with self.assertRaises(UpdateFailed):
            self.program().add("0.3.0", packed(FILES))

    def test_old_and_incomplete_versions_are_deleted(self) -> None:
        for version in ("0.1.0", "0.2.0", "0.3.0", "0.4.0.new", "0.2.0-77.new"):
            lay(self.root / version)
        os.utime(self.root / "0.4.0.new", (0, 0))
        self.program(source=self.root / "0.3.0").tidy()
        # another start may still be completing the fresh folder
        self.assertEqual(self.names(), ["0.2.0", "0.2.0-77.new", "0.3.0"])

    def test_remove_from_another_folder_deletes_all_versions(self) -> None:
        self.program().install()
        for _ in range(2):
            self.program().remove()
            self.assertFalse(self.root.exists())

    def test_installed_program_under_another_name_starts_no_other(self) -> None:
        self.program().install()
        short = new_folder(self) / "BJRN~1"
        short.symlink_to(self.root.parent)
        program = self.program(source=short / "program" / "0.2.0")
        self.assertTrue(program.installed)
        # otherwise the program would start itself for ever
        self.assertEqual(program.newer_command(), [])

    def test_only_the_packed_programs_can_be_replaced(self) -> None:
        places = places_of("win32", {}, r"C:\Users\Bo")
        self.assertEqual(
            places.program, PureWindowsPath(r"C:\Users\Bo\AppData\Local\svc-launcher\program")
        )
        # run by a Python that somebody installed
        self.assertIsNone(windows_program(places, "0.2.0"))
        self.assertIsNone(own_program(places, "0.2.0"))
        self.patch(sys, "executable", str(self.source / "SVC-Launcher.exe"))
        self.assertIsNone(windows_program(places_of("linux", {}, "/home/bo"), "0.2.0"))
        program = own_program(places, "0.2.0")
        assert program is not None
        self.assertEqual(program.file_name, "svc-launcher-windows.zip")


class PackedProgramTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = new_folder(self)

    def packed(
        self, name: str, version: str, more: str = "", *, copied: bool = True
    ) -> PackedProgram:
        """Write a packed launcher and return it.

        If ``copied``, the launcher keeps its copy in the folder ``own``.
        """
        file = self.folder / name
        with zipfile.ZipFile(file, "w") as packed:
            packed.writestr(f"site-packages/svc_launcher-{version}.dist-info/METADATA", more)
        copy = self.folder / "own" / "svc-launcher.pyz" if copied else None
        return PackedProgram(file, version, lambda command: f"svc-launcher {version}", copy)

    def trial(self, base: Path, version: str) -> PackedProgram:
        return PackedProgram(base, version, is_trial=True)

    def test_new_file_is_used_only_if_it_starts_and_serves_its_page(self) -> None:
        old = self.packed("svc-launcher.pyz", "0.2.0", copied=False)
        file, tried = old.file, self.folder / "svc-launcher-tried.pyz"
        file.chmod(0o755)
        content = self.packed("new", "0.3.0").file.read_bytes()
        (self.folder / "new").unlink()
        with self.assertRaises(UpdateFailed):
            old.add("0.4.0", content)
        self.assertEqual(list(self.folder.iterdir()), [file])
        for ending in ("fails", "gives way", "works"):
            evolve(old, run=lambda command: "svc-launcher 0.3.0").add("0.3.0", content)
            self.assertEqual(old.newer_command(), [sys.executable, str(tried)])
            self.assertTrue(os.access(tried, os.X_OK))
            new = self.trial(file, "0.3.0")
            self.assertEqual((new.newer_command(), new.failed), ([], ""))
            if ending == "fails":
                self.assertEqual((old.newer_command(), old.failed), ([], "0.3.0"))
            elif ending == "gives way":
                new.give_way()
                self.assertEqual(old.failed, "")
            else:
                new.confirm()
                new.confirm()
        self.assertEqual((file.read_bytes(), list(self.folder.iterdir())), (content, [file]))

    def test_running_file_is_recognised(self) -> None:
        places = places_of("linux", {}, "/home/bo")
        for name in ("svc-launcher.pyz", "svc-launcher-tried.pyz"):
            (self.folder / name).touch()
            self.patch(sys, "argv", [str(self.folder / name)])
            program = own_program(places, "0.3.0", copied=False)
            assert program is not None
            command = [sys.executable, str(self.folder / "svc-launcher.pyz")]
            self.assertEqual((program.command(), own_command()), (command, command))

    def test_file_is_copied_for_the_user_unless_the_copy_is_newer(self) -> None:
        for name, version, more, is_tried in (
            ("first.pyz", "0.3.0", "", False),
            ("first.pyz", "0.3.0", "", False),
            ("newer.pyz", "0.4.0.dev1", "", True),
            ("older.pyz", "0.3.9", "", False),
            ("released.pyz", "0.4.0", "", True),
            ("rebuilt.pyz", "0.4.0", "built again", True),
        ):
            program = self.packed(name, version, more)
            assert program.copy is not None
            program.install()
            tried = program.copy.with_name("svc-launcher-tried.pyz")
            with self.subTest(name=name):
                started = tried if is_tried else program.copy
                self.assertEqual(program.newer_command(), [sys.executable, str(started)])
                if is_tried:
                    self.trial(program.copy, version).confirm()
                    self.assertEqual(program.copy.read_bytes(), program.file.read_bytes())
            self.assertEqual(list(program.copy.parent.iterdir()), [program.copy])
        self.assertTrue(os.access(program.copy, os.X_OK))
        copied = PackedProgram(program.copy, "0.4.0", copy=program.copy)
        copied.install()
        self.assertEqual(copied.newer_command(), [])
        newer = self.packed("newest.pyz", "0.5.0")  # this program could not be copied
        self.assertEqual(newer.newer_command(), [])
        program.remove()
        program.remove()
        self.assertFalse(program.copy.exists())

    def test_unpacked_folders_of_older_launchers_are_deleted(self) -> None:
        cache, started = self.folder / "cache", self.folder / "svc-launcher.pyz"
        names = [f"{name}_5a" for name in ("svc-launcher.pyz", "svc-launcher-new.pyz", "other.pyz")]
        own, old, foreign = folders = [cache / name for name in names]
        for folder in folders:
            (folder / "site-packages" / "svcserver").mkdir(parents=True)
        lock = cache / ".svc-launcher.pyz_5a_lock"
        lock.touch()
        module = own / "site-packages" / "svcserver" / "__init__.py"
        self.assertEqual(unpacked_folder(started, module), own)
        self.assertIsNone(unpacked_folder(self.folder / "py.pyz", module))
        self.assertIsNone(unpacked_folder(started, Path(__file__)))
        program = PackedProgram(started, "0.3.0", unpacked=own)
        program.confirm()
        self.assertTrue(old.exists())  # the folder may belong to a launcher that is just starting
        for folder in folders:
            os.utime(folder, (0, 0))
        program.confirm()
        self.assertEqual({*cache.iterdir()}, {own, foreign, lock})
        program.remove()
        self.assertEqual([*cache.iterdir()], [foreign])

    def test_remove_names_the_folders_that_stay(self) -> None:
        file, printed = self.folder / "svc-launcher.pyz", io.StringIO()
        file.touch()
        copy = self.folder / "program" / file.name
        copy.parent.mkdir()
        copy.touch()
        self.patch(sys, "argv", [str(file)])
        self.patch(sys, "stdout", printed)
        self.patch(main, "places_here", lambda environ: self.places())
        self.patch(main, "scheme_of", lambda *_: NoScheme())
        self.assertEqual(main.main(["remove"]), 0)
        folder = f"{self.folder / 'state'} and {self.folder / 'games'}"
        self.assertIn(words.REMOVED.format(folder=folder), printed.getvalue())
        self.assertFalse(copy.exists())

    def places(self) -> Places:
        return Places(
            self.folder / "state", self.folder / "games", None, program=self.folder / "program"
        )


class LockedFilesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.patch(
            sys.modules["svcserver.launcher.locked_files"],
            "system",
            lambda: type("Fake", (), {"monotonic": self.clock.seconds}),
        )
        self.attempts = 0
        self.file = new_folder(self) / "file"

    def attempt(self, until_s: float) -> None:
        def work() -> None:
            self.attempts += 1
            if self.clock.seconds() < until_s:
                raise PermissionError(13, "locked")

        patiently(work, self.file, platform="win32", pause=self.clock.advance)

    def test_locked_file_is_tried_for_five_seconds(self) -> None:
        self.attempt(PATIENCE_S - PAUSE_S)
        self.assertGreater(self.attempts, 50)
        self.assertRaises(PermissionError, self.attempt, 2 * PATIENCE_S + 1)
        self.assertLess(self.clock.seconds(), 2 * PATIENCE_S + 2 * PAUSE_S)

    def test_locked_file_fails_at_once_outside_windows(self) -> None:
        def work() -> None:
            raise PermissionError(13, "forbidden")

        with self.assertRaises(PermissionError):
            patiently(work, self.file, platform="linux", pause=self.clock.advance)
        self.assertEqual(self.clock.seconds(), 0)

    def test_read_only_file_is_made_writable(self) -> None:
        self.file.touch()
        self.file.chmod(0o444)
        self.attempt(PAUSE_S)
        self.assertTrue(self.file.stat().st_mode & 0o200)

    def test_long_paths_have_the_prefix_of_windows(self) -> None:
        for path, long in (
            (r"C:\Games\Żółw", r"\\?\C:\Games\Żółw"),
            (r"d:\x", r"\\?\d:\x"),
            (r"\\nas\games\hunt", r"\\?\UNC\nas\games\hunt"),
            (r"\\?\C:\x", r"\\?\C:\x"),
        ):
            self.assertEqual(extended(path), long)
            self.assertEqual(plain_path(long), path.removeprefix("\\\\?\\"))
        self.assertEqual(long_path(Path("/games"), "linux"), Path("/games"))


class OpenPagesTests(SynchronousTestCase):
    def test_launcher_is_unused_a_minute_after_its_last_page(self) -> None:
        clock = Clock()
        pages = OpenPages(clock.seconds)
        pages.expect()
        clock.advance(100)
        self.assertEqual(pages.unused_s(busy=False), 0)  # the browser is slow
        pages.use(b"one")
        pages.use(b"two")
        pages.close(b"one")
        clock.advance(100)
        self.assertEqual(pages.unused_s(busy=False), 0)
        pages.close(b"two")
        pages.close(b"two")
        clock.advance(60)
        self.assertEqual(pages.unused_s(busy=False), 60)
        pages.use(b"two")  # the page was only reloaded
        self.assertEqual(pages.unused_s(busy=False), 0)
        pages.close(b"two")
        clock.advance(100)
        self.assertEqual(pages.unused_s(busy=True), 0)  # the game runs
        clock.advance(59)
        self.assertEqual(pages.unused_s(busy=False), 59)

    def test_late_request_of_a_closed_page_does_not_count(self) -> None:
        clock = Clock()
        pages = OpenPages(clock.seconds)
        clock.advance(5000)
        pages.use(b"one")
        pages.close(b"one")
        clock.advance(LATE_S - 0.5)
        pages.use(b"one")  # it was sent before the report, on another connection
        self.assertEqual(pages.unused_s(busy=False), LATE_S - 0.5)
        clock.advance(0.5)
        pages.use(b"one")  # the page was reloaded, and asks each second
        self.assertEqual(pages.unused_s(busy=False), 0)

    def test_minute_begins_when_the_page_is_closed(self) -> None:
        clock = Clock()
        pages = OpenPages(clock.seconds)
        clock.advance(5000)  # the clock of a PC that has run for a long time
        pages.expect()
        pages.use(b"one")
        clock.advance(3)
        pages.close(b"one")  # before anything has asked for the unused time
        clock.advance(1)
        self.assertEqual(pages.unused_s(busy=False), 1)

    def test_page_of_a_crashed_browser_counts_as_closed_later(self) -> None:
        clock = Clock()
        pages = OpenPages(clock.seconds)
        pages.expect()
        pages.use(b"one")
        clock.advance(SILENT_S - 1)
        self.assertEqual(pages.unused_s(busy=False), 0)
        clock.advance(1)
        self.assertEqual(pages.unused_s(busy=False), 1)


class StartMenuTests(SynchronousTestCase):
    def test_entries_are_added_moved_and_removed(self) -> None:
        registry, made = Registered(), list[Path]()

        def make_shortcut(file: Path, program: Path, _: str) -> None:
            file.touch()
            made.append(program)

        before = dict(registry.keys)
        menu = StartMenu(
            new_folder(self) / "Programs",
            registry,
            make_shortcut,
        )
        old, new = Path("/p/0.2.0/svc-launcher.exe"), Path("/p/0.3.0/svc-launcher.exe")
        for program, version in ((old, "0.2.0"), (old, "0.2.0"), (new, "0.3.0")):
            menu.add(program, version)
        self.assertEqual(made, [old, new])
        menu.add(new, "0.3.0")
        entry = next(value for key, value in registry.keys.items() if key.endswith("svc-launcher"))
        self.assertEqual(entry["UninstallString"], f'"{new}" remove')
        self.assertEqual(entry["DisplayVersion"], "0.3.0")
        menu.remove()
        menu.remove()
        self.assertEqual(list(menu.menu.iterdir()), [])
        self.assertNotIn("svc-launcher", "".join(registry.keys))
        self.assertEqual(before, {})


class CrashTests(SynchronousTestCase):
    def crash(self, state: Path) -> str:
        try:
            raise ValueError("of a host:\x1b[2J\n2026-01-01 a forged line")
        except ValueError as error:
            return write_report(error, state, "0.2.0")

    def test_crash_is_written_to_a_private_file(self) -> None:
        state = new_folder(self) / "state"
        text = self.crash(state)
        file = state / crashes.FILE
        self.assertIn(str(file), text)
        report = file.read_text()
        self.assertTrue(report.startswith("svc-launcher 0.2.0 on "))
        self.assertIn("ValueError", report)
        self.assertNotIn("\x1b", report)
        self.assertNotIn("\r", report)
        self.assertEqual(file.stat().st_mode & 0o077, 0)

    def test_report_is_elsewhere_if_the_folder_is_the_fault(self) -> None:
        state = new_folder(self) / "state"
        state.write_text("a file in place of the folder")
        temporary = new_folder(self)
        self.patch(tempfile, "tempdir", str(temporary))
        self.assertIn(str(temporary / crashes.FILE), self.crash(state))
