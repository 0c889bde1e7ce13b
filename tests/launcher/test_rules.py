"""The pure functions for file lists, commands, folders and the relay's port."""

import json as standard_json
import tracemalloc
from pathlib import Path, PureWindowsPath
from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.game_paths import is_safe
from svcserver.launcher.command import DOCUMENTED, HIDDEN, BadCommand, StartValues, split
from svcserver.launcher.listing import LONGEST_BUILD, BadListing, read_listing
from svcserver.launcher.main import relay_port
from svcserver.launcher.places import downloads_here, downloads_of, places_of
from tests.launcher.any_json import ANY_JSON
from tests.launcher.around import manifest, new_folder


class ListingTests(SynchronousTestCase):
    def test_a_valid_list_gives_its_files_and_total_size(self) -> None:
        listing = read_listing(manifest({"a/b.pak": b"1234", "c": b""}))
        self.assertEqual([file.path for file in listing.files], ["a/b.pak", "c"])
        self.assertEqual(listing.total, 4)

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

    def test_hostile_list_takes_twice_its_text_at_most(self) -> None:
        size = 2**20
        empty_file = b'{"path":"a","size":0,"sha256":"%s","x":' % (b"0" * 64)
        for text in (
            *(
                b'{"files":[%s]}' % b",".join([item] * (size // len(item)))
                for item in (b"[]", b"{}", b"7.5", b'"ab"')
            ),
            b'{"files":' + b"[" * size,
            b'{"files":[' + b" " * size,
            b'{"files":[{%s}]}' % b",".join(b'"%d":{}' % number for number in range(size // 10)),
            b'{"files":[' + empty_file + b'"' + b"\\" * size + b'"}]}',
            b'{"files":[],"x":[%s]}' % b",".join([b"[]"] * size),
            b'{"x":[%s],"files":[]}' % b",".join([b"[]"] * size),
            json.dump({"files": [], "build": "b" * size}),
        ):
            with self.subTest(text=text[:30]):
                self.assertLess(self.memory_of(text), 2 * size)
                self.assertRaises(BadListing, read_listing, text)

    def test_valid_list_takes_twice_its_text_at_most(self) -> None:
        deep = "/".join("d" * 250)
        for paths in (
            [f"{number:x}" for number in range(10_000)],
            [f"{number}/{deep}" for number in range(500)],
            [f"{number:04}{chr(0x1F3AE) * 1020}" for number in range(250)],
            # the name is longer in lower case
            [f"{number:04}{chr(0x23A) * 1020}" for number in range(500)],
            [f"{number:04}{chr(0x130) * 1020}" for number in range(500)],
        ):
            with self.subTest(path=paths[0][:9]):
                text = manifest({path: b"" for path in paths})
                self.assertLess(self.memory_of(text), 2 * len(text))
                files = read_listing(text).files
                self.assertEqual([file.path for file in files], sorted(paths))

    def test_files_of_a_list_are_read_by_number(self) -> None:
        files = read_listing(manifest({"a": b"1", "b": b"22", "c": b"333"})).files
        self.assertEqual([file.size for file in files[1:]], [2, 3])
        self.assertEqual((files[-1].path, len(files)), ("c", 3))
        self.assertRaises(IndexError, files.__getitem__, 3)

    def memory_of(self, text: bytes) -> int:
        """Return the peak memory in bytes for parsing ``text``, without the text itself."""
        tracemalloc.start()
        try:
            read_listing(text)
        except BadListing:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return peak

    def test_files_are_read_in_any_spelling_of_json(self) -> None:
        entry = {"path": 'a{"x"]}/\u00e9[1]', "size": 3, "sha256": "0" * 64, "more": 'a"}\\'}
        entry["path"] = entry["path"].replace('"', "'")
        value = {"program": "b", "files": [entry, {**entry, "path": "b"}], "build": "1"}
        for text in (
            json.dump(value),
            standard_json.dumps(value).encode(),
            standard_json.dumps(value, indent=4).replace("\n", "\r\n").encode(),
        ):
            listing = read_listing(text)
            self.assertEqual([file.path for file in listing.files], [entry["path"], "b"])
            self.assertEqual((listing.build, listing.program), ("1", "b"))
        self.assertEqual([*read_listing(b'{"files" : [ ] }').files], [])

    def test_list_is_valid_json_as_a_whole(self) -> None:
        good = manifest({"a": b"", "b": b""})
        for bad in (
            good[:-1],
            good + b"}",
            b"[" + good + b"]",
            good.replace(b'"files"', b'"x":{"files"') + b"}",
            good.replace(b"},{", b"},,{"),
            good.replace(b"},{", b"} {"),
            good.replace(b"}]", b"},]"),
        ):
            with self.subTest(text=bad), self.assertRaises(BadListing):
                read_listing(bad)

    def test_version_name_is_limited(self) -> None:
        data = {"files": [], "build": "b" * 10**4}
        self.assertEqual(len(read_listing(json.dump(data)).build), LONGEST_BUILD)

    def test_only_a_file_of_the_list_is_the_program(self) -> None:
        files = {"Game/Hunt.exe": b"MZ", "-x.exe": b"MZ"}
        for named, program in (
            ("Game/Hunt.exe", "Game/Hunt.exe"),
            ("-x.exe", "-x.exe"),  # in the command, its folder precedes the name
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
            data = {"files": [{"path": "a", "size": size, "sha256": "0" * 64}]}
            with self.assertRaises(BadListing):
                read_listing(json.dump(data))

    @given(ANY_JSON)
    def test_any_json_is_a_list_or_refused(self, data: Any) -> None:
        try:
            text = json.dump(data)
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
    start = StartValues("/games/my host", "127.0.0.1:61000", "ws://127.0.0.1:61000")

    def test_values_with_blanks_stay_one_argument(self) -> None:
        arguments = self.start.arguments(DOCUMENTED, "", "UUK_1 -evil")
        self.assertEqual(arguments[0], "/games/my host/game.exe")
        self.assertIn("-AUTH_PASSWORD=UUK_1 -evil", arguments)

    def test_program_is_one_argument_below_the_folder(self) -> None:
        for name in ("-x.exe", "a b/c' d.exe", "{key}", "Game/$(id).exe"):
            arguments = evolve(self.start, program=name).arguments(DOCUMENTED, "wine", "UUK_1")
            self.assertEqual(arguments[:2], ["wine", f"/games/my host/{name}"])
            self.assertEqual(len(arguments), 7)

    def test_runner_comes_first_and_backslashes_stay(self) -> None:
        arguments = self.start.arguments(r'"C:\my game\g.exe" -x', "wine --flag", "k")
        self.assertEqual(arguments, ["wine", "--flag", r"C:\my game\g.exe", "-x"])

    def test_the_key_is_not_shown(self) -> None:
        self.assertIn(HIDDEN, self.start.shown(DOCUMENTED, "", "linux"))

    def test_the_command_is_shown_as_the_system_quotes_it(self) -> None:
        there = StartValues(r"C:\my games", "h:1", "c")
        for platform, shown in (
            ("win32", r'"C:\my games/game.exe" -s=h:1'),
            ("linux", r"'C:\my games/game.exe' -s=h:1"),
        ):
            self.assertEqual(there.shown("{folder}/game.exe -s={server}", "", platform), shown)

    def test_a_value_is_not_filled_in_again(self) -> None:
        sly = StartValues("/g", "{key}", "c")
        self.assertEqual(sly.arguments("{server}", "", "UUK_secret"), ["{key}"])

    def test_a_broken_command_is_refused(self) -> None:
        for text in ("", "   ", 'a "b', "x" * 5000):
            with self.assertRaises(BadCommand):
                split(text)


class PlacesTests(SynchronousTestCase):
    def test_each_system_has_its_own_folders(self) -> None:
        windows = places_of("win32", {"LOCALAPPDATA": r"C:\Users\Bo\AppData\Local"}, r"C:\Users\Bo")
        self.assertEqual(str(windows.state), r"C:\Users\Bo\AppData\Local\svc-launcher\state")
        self.assertIsNone(windows.programs)
        self.assertIn("AppData", str(places_of("win32", {}, r"D:\Bo").games))
        linux = places_of("linux", {"XDG_DATA_HOME": "/d", "XDG_STATE_HOME": "relative"}, "/home/b")
        self.assertEqual(str(linux.games), "/d/svc-launcher/games")
        self.assertEqual(str(linux.state), "/home/b/.local/state/svc-launcher")
        self.assertIn("Library", str(places_of("darwin", {}, "/Users/b").state))

    def test_downloads_folder_of_the_desktop_is_used(self) -> None:
        for text, folder in (
            ("", "/home/b/Downloads"),
            ('XDG_DOWNLOAD_DIR="$HOME/T\\"é lé"\n', '/home/b/T"é lé'),
            ('# a\nXDG_DOWNLOAD_DIR="/data/in"\nXDG_MUSIC_DIR="$HOME/M"\n', "/data/in"),
            ('XDG_DOWNLOAD_DIR="$HOME/"\n', "/home/b"),
            ('#XDG_DOWNLOAD_DIR="/no"\nXDG_DOWNLOAD_DIR="relative"\n', "/home/b/Downloads"),
            ('XDG_DOWNLOAD_DIR="$(rm)"\n', "/home/b/Downloads"),
        ):
            self.assertEqual(str(downloads_of("/home/b", text)), folder)

    def test_without_such_a_folder_it_is_put_into_the_home_folder(self) -> None:
        home = new_folder(self)
        self.assertEqual(downloads_here({}, home), home)
        (home / ".config").mkdir()
        (home / ".config" / "user-dirs.dirs").write_text('XDG_DOWNLOAD_DIR="$HOME/In"\n')
        self.assertEqual(downloads_here({}, home), home)
        (home / "In").mkdir()
        self.assertEqual(downloads_here({}, home), home / "In")
        self.assertEqual(downloads_here({"XDG_CONFIG_HOME": str(home)}, home), home)


class PortTests(SynchronousTestCase):
    def test_bad_port_is_reported_and_not_used(self) -> None:
        """An earlier launcher exited with a traceback on a bad port."""
        lines: list[str] = []
        for text, port in (("", 61000), (" ", 61000), ("61010", 61010), ("1024", 1024)):
            self.assertEqual(relay_port(text, lines.append), port)
        self.assertEqual(lines, [])
        bad = ("game", "80", "065000", "70000", "1e4", "-1", "9" * 5000, "\u0661" * 5)
        for number, text in enumerate(bad, 1):
            self.assertEqual(relay_port(text, lines.append), 61000)
            self.assertEqual(len(lines), number)
        self.assertEqual(len(set(lines)), 1)
        self.assertIn("SVC_RELAY_PORT must be a port from 1024 to 65535", lines[0])
