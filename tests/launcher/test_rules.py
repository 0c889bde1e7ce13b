"""The pure parts: lists of files, commands, places, words, links."""

from __future__ import annotations

import os
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from types import ModuleType
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.launcher.command import DOCUMENTED, HIDDEN, BadCommand, Start, split
from svcserver.launcher.listing import LONGEST_BUILD, BadListing, is_safe, read_listing
from svcserver.launcher.places import downloads_here, downloads_of, places_of
from svcserver.launcher.scheme import LinuxScheme, WindowsScheme, own_command, scheme_of
from tests.launcher.any_json import ANY_JSON
from tests.launcher.around import manifest, new_folder


class ListingTests(SynchronousTestCase):
    def test_a_list_is_read(self) -> None:
        found = read_listing(manifest({"a/b.pak": b"1234", "c": b""}))
        self.assertEqual([one.path for one in found.files], ["a/b.pak", "c"])
        self.assertEqual(found.total, 4)

    def test_a_path_that_leaves_the_folder_on_any_system_is_refused(self) -> None:
        for path in (
            "../x", "a/../../x", "/etc/x", "C:/x", "a\\..\\x", "", "a//b", "a/", "con", "a/NUL.txt",
            "com1", "a./b", "a /b", "x:stream", "a\0b", ".svc-launcher/parts/x", ".", "a/.",
            "con .txt", "a/Nul  ", "CONIN$", "b/conout$.log", "SVC-LA~1/parts/x", "a/B~12.TXT",
        ):  # fmt: skip
            self.assertFalse(is_safe(path), path)
        for path in ("a", "a b/c.d", ".hidden", "Größe/π.pak", "console.txt", "backup-of~1.pak"):
            self.assertTrue(is_safe(path), path)

    def test_a_file_twice_or_where_a_folder_is_is_refused(self) -> None:
        for paths in (("a", "A"), ("a", "a/b"), ("A/b", "a"), ("a", "a b", "a-b", "a/b/c")):
            with self.assertRaises(BadListing):
                read_listing(manifest({path: b"" for path in paths}))

    def test_a_list_of_deep_paths_takes_memory_only_for_its_paths(self) -> None:
        deep = "/".join("d" * 250)
        text = manifest({f"{number}/{deep}": b"" for number in range(500)})
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        read_listing(text)
        self.assertLess(tracemalloc.get_traced_memory()[1], 20 * len(text))

    def test_a_name_of_a_version_is_no_book(self) -> None:
        said = {"files": [], "build": "b" * 10**6}
        self.assertEqual(len(read_listing(json.dump(said)).build), LONGEST_BUILD)

    def test_only_a_file_of_the_list_is_the_program(self) -> None:
        files = {"Game/Hunt.exe": b"MZ", "-x.exe": b"MZ"}
        for named, program in (
            ("Game/Hunt.exe", "Game/Hunt.exe"),
            ("-x.exe", "-x.exe"),  # stands behind its folder in the command
            ("game/hunt.exe", ""),
            ("Game/../Game/Hunt.exe", ""),
            ("/bin/sh", ""),
            ("../../bin/sh", ""),
            ("Game", ""),
            ("Game/Hunt.exe -x", ""),
            (["Game/Hunt.exe"], ""),
            (None, ""),
        ):
            self.assertEqual(read_listing(manifest(files, program=named)).program, program)
        self.assertEqual(read_listing(manifest(files)).program, "")

    def test_a_size_that_no_file_has_is_refused(self) -> None:
        for size in (-1, 2**60):
            said = {"files": [{"path": "a", "size": size, "sha256": "0" * 64}]}
            with self.assertRaises(BadListing):
                read_listing(json.dump(said))

    @given(ANY_JSON)
    def test_whatever_a_host_says_is_a_list_or_refused(self, said: Any) -> None:
        try:
            text = json.dump(said)
        except TypeError:
            return
        try:
            read_listing(text)
        except BadListing:
            return

    @given(st.text(max_size=40))
    def test_a_safe_path_stays_inside(self, path: str) -> None:
        if is_safe(path):
            root = PureWindowsPath("C:/games/x")
            self.assertTrue(PureWindowsPath(root / path).is_relative_to(root))
            self.assertEqual(Path("/g", path).parts[:2], ("/", "g"))
            self.assertNotIn("..", Path(path).parts)


class CommandTests(SynchronousTestCase):
    start = Start("/games/my host", "127.0.0.1:61000", "ws://127.0.0.1:61000")

    def test_values_with_blanks_stay_one_argument(self) -> None:
        found = self.start.arguments(DOCUMENTED, "", "UUK_1 -evil")
        self.assertEqual(found[0], "/games/my host/game.exe")
        self.assertIn("-AUTH_PASSWORD=UUK_1 -evil", found)

    def test_a_program_however_it_is_named_is_one_argument_below_the_folder(self) -> None:
        for name in ("-x.exe", "a b/c' d.exe", "{key}", "Game/$(id).exe"):
            found = evolve(self.start, program=name).arguments(DOCUMENTED, "wine", "UUK_1")
            self.assertEqual(found[:2], ["wine", f"/games/my host/{name}"])
            self.assertEqual(len(found), 7)

    def test_a_runner_stands_in_front_and_backslashes_stay(self) -> None:
        found = self.start.arguments(r'"C:\my game\g.exe" -x', "wine --flag", "k")
        self.assertEqual(found, ["wine", "--flag", r"C:\my game\g.exe", "-x"])

    def test_the_key_is_not_shown(self) -> None:
        self.assertIn(HIDDEN, self.start.shown(DOCUMENTED, "", "linux"))

    def test_the_command_is_shown_as_the_system_quotes_it(self) -> None:
        there = Start(r"C:\my games", "h:1", "c")
        for platform, shown in (
            ("win32", r'"C:\my games/game.exe" -s=h:1'),
            ("linux", r"'C:\my games/game.exe' -s=h:1"),
        ):
            self.assertEqual(there.shown("{folder}/game.exe -s={server}", "", platform), shown)

    def test_a_value_is_not_filled_in_again(self) -> None:
        sly = Start("/g", "{key}", "c")
        self.assertEqual(sly.arguments("{server}", "", "UUK_secret"), ["{key}"])

    def test_a_broken_command_is_refused(self) -> None:
        for text in ("", "   ", 'a "b', "x" * 5000):
            with self.assertRaises(BadCommand):
                split(text)


class PlacesTests(SynchronousTestCase):
    def test_each_system_has_its_own(self) -> None:
        windows = places_of("win32", {"LOCALAPPDATA": r"C:\Users\Bo\AppData\Local"}, r"C:\Users\Bo")
        self.assertEqual(str(windows.state), r"C:\Users\Bo\AppData\Local\svc-launcher\state")
        self.assertIsNone(windows.programs)
        self.assertIn("AppData", str(places_of("win32", {}, r"D:\Bo").games))
        linux = places_of("linux", {"XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "relative"}, "/home/b")
        self.assertEqual(str(linux.games), "/d/svc-launcher/games")
        self.assertEqual(str(linux.state), "/home/b/.local/state/svc-launcher")
        self.assertIn("Library", str(places_of("darwin", {}, "/Users/b").state))

    def test_what_a_player_takes_along_is_put_where_they_look_for_it(self) -> None:
        self.assertEqual(str(downloads_of("win32", r"C:\Users\Bo", "")), r"C:\Users\Bo\Downloads")
        for said, folder in (
            ("", "/home/b/Downloads"),
            ('XDG_DOWNLOAD_DIR="$HOME/T\\"é lé"\n', '/home/b/T"é lé'),
            ('# a\nXDG_DOWNLOAD_DIR="/data/in"\nXDG_MUSIC_DIR="$HOME/M"\n', "/data/in"),
            ('XDG_DOWNLOAD_DIR="$HOME/"\n', "/home/b"),
            ('#XDG_DOWNLOAD_DIR="/no"\nXDG_DOWNLOAD_DIR="relative"\n', "/home/b/Downloads"),
            ('XDG_DOWNLOAD_DIR="$(rm)"\n', "/home/b/Downloads"),
        ):
            self.assertEqual(str(downloads_of("linux", "/home/b", said)), folder)

    def test_without_such_a_folder_it_is_put_into_the_home_folder(self) -> None:
        home = new_folder(self)
        self.assertEqual(downloads_here({}, home), home)
        (home / ".config").mkdir()
        (home / ".config" / "user-dirs.dirs").write_text('XDG_DOWNLOAD_DIR="$HOME/In"\n')
        self.assertEqual(downloads_here({}, home), home)
        (home / "In").mkdir()
        self.assertEqual(downloads_here({}, home), home / "In")
        self.assertEqual(downloads_here({"XDG_CONFIG_HOME": str(home)}, home), home)


class Registered:
    """A registry in memory."""

    def __init__(self) -> None:
        self.keys: dict[str, dict[str, str]] = {}
        self.written = 0

    def set(self, key: str, name: str, value: str) -> None:
        self.written += 1
        parts = key.split("\\")
        for count in range(1, len(parts)):
            self.keys.setdefault("\\".join(parts[:count]), {})
        self.keys.setdefault(key, {})[name] = value

    def get(self, key: str) -> str | None:
        return self.keys.get(key, {}).get("")

    def delete(self, key: str) -> None:
        assert not any(other.startswith(key + "\\") for other in self.keys), "it has keys below"
        self.keys.pop(key, None)


class Winreg(ModuleType):
    """The module of Windows, as far as it is used, over the same registry in memory."""

    HKEY_CURRENT_USER, REG_SZ = 7, 1

    def __init__(self) -> None:
        super().__init__("winreg")
        self.kept = Registered()

    @contextmanager
    def CreateKey(self, hive: int, key: str) -> Iterator[str]:
        assert hive == self.HKEY_CURRENT_USER
        yield key

    def SetValueEx(self, key: str, name: str, _: int, kind: int, value: str) -> None:
        assert kind == self.REG_SZ
        self.kept.set(key, name, value)

    def QueryValue(self, _: int, key: str) -> str:
        value = self.kept.get(key)
        if value is None:
            raise FileNotFoundError(key)
        return value

    def DeleteKey(self, _: int, key: str) -> None:
        if key not in self.kept.keys:
            raise FileNotFoundError(key)
        if any(other.startswith(key + "\\") for other in self.kept.keys):
            raise PermissionError(key)
        del self.kept.keys[key]


class SchemeTests(SynchronousTestCase):
    def test_on_windows_the_users_registry_is_used_through_its_module(self) -> None:
        module = Winreg()
        self.patch(sys, "modules", {**sys.modules, "winreg": module})
        self.patch(sys, "argv", [r"C:\Users\Bo Bo\svc-launcher.pyz"])
        self.patch(sys, "executable", r"C:\Python\python.exe")
        places = places_of("win32", {}, r"C:\Users\Bo Bo")
        scheme = scheme_of("win32", places)
        scheme.remove()
        scheme.add()
        written = module.kept.written
        scheme.add()
        self.assertEqual(module.kept.written, written)
        command = module.kept.get(r"Software\Classes\svc\shell\open\command")
        assert command is not None
        self.assertTrue(command.startswith('"C:\\Python\\python.exe" "'), command)
        self.assertTrue(command.endswith('svc-launcher.pyz" "%1"'), command)
        module.kept.set(r"Software\Classes\svc\shell\other", "", "of another program")
        with self.assertRaises(OSError):
            scheme.remove()
        module.DeleteKey(7, r"Software\Classes\svc\shell\other")
        scheme.remove()
        self.assertEqual([key for key in module.kept.keys if "svc" in key], [])

    def test_a_link_starts_this_very_program_from_any_folder(self) -> None:
        folder = new_folder(self)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder)
        for name in ("svc-launcher", "svc-launcher.pyz"):
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
        own = folder.resolve() / "svc-launcher"
        for called, command in (
            ("./svc-launcher", [str(own)]),
            (str(own), [str(own)]),
            ("svc-launcher.pyz", [sys.executable, f"{own}.pyz"]),
            ("no-such-program", [sys.executable, "-m", "svcserver.launcher.main"]),
        ):
            self.patch(sys, "argv", [called])
            self.assertEqual(own_command(), command)

    def test_windows_opens_links_and_forgets_it_again(self) -> None:
        registry = Registered()
        registry.set(r"Software\Classes\other", "", "kept")
        before = {key: dict(values) for key, values in registry.keys.items()}
        scheme = WindowsScheme(registry, [r"C:\Program Files\py.exe", r"C:\l.pyz"])
        scheme.add()
        written = registry.written
        scheme.add()
        self.assertEqual(registry.written, written)
        self.assertEqual(registry.keys[r"Software\Classes\svc"]["URL Protocol"], "")
        self.assertEqual(
            registry.get(r"Software\Classes\svc\shell\open\command"),
            r'"C:\Program Files\py.exe" "C:\l.pyz" "%1"',
        )
        scheme.remove()
        scheme.remove()
        self.assertEqual(registry.keys, before)

    def test_linux_writes_a_desktop_file_and_takes_it_away(self) -> None:
        folder, ran = new_folder(self), []
        choices = folder / "mimeapps.list"
        scheme = LinuxScheme(folder / "applications", ["/opt/my py", "/l.pyz"], ran.append, choices)
        scheme.add()
        [file] = (folder / "applications").iterdir()
        text = file.read_text()
        self.assertIn('Exec="/opt/my py" "/l.pyz" %u\n', text)
        self.assertIn("MimeType=x-scheme-handler/svc;\n", text)
        self.assertEqual(ran[0][:2], ["xdg-mime", "default"])
        before = "[Default Applications]\ntext/html=fox.desktop\nx-scheme-handler/svc={}\n"
        for other in ("other.desktop", "svc-launcher.desktop.mine"):
            choices.write_text(before.format(other))
            scheme.remove()
            self.assertEqual(choices.read_text(), before.format(other))
        for ours in ("svc-launcher.desktop", "svc-launcher.desktop;"):
            choices.write_text(before.format(ours))
            scheme.remove()
            self.assertEqual(choices.read_text().splitlines(), before.splitlines()[:2])
        self.assertEqual(list((folder / "applications").iterdir()), [])
        self.assertEqual(list(folder.glob("mime*")), [choices])
