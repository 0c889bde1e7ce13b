"""The manifest's rules, and how a manifest is built and verified."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from threading import Event
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.content import manifest_builder as builder
from svcserver.content.manifest import BadManifest, ManifestEntry, make, parse
from svcserver.content.manifest_builder import (
    BuildFailed,
    HashingProgress,
    build_manifest,
    load_manifest,
    verify_manifest,
)
from svcserver.ctl import host_creation
from svcserver.launcher.listing import read_listing
from tests.support.proves import proves

HASH = "a" * 64


def text(**changed: Any) -> bytes:
    files = [{"path": "A/b", "size": 3, "sha256": HASH}, {"path": "c", "size": 4, "sha256": HASH}]
    value = {"build": "1.4.4", "totalBytes": 7, "files": files}
    return json.dumps({**value, **changed}).encode()


def with_entry(**changed: Any) -> bytes:
    entry = {"path": "a", "size": 3, "sha256": HASH, **changed}
    size = entry["size"]
    return text(files=[entry], totalBytes=size if isinstance(size, int) else 0)


class ParseTests(SynchronousTestCase):
    @proves("thing: Content manifest")
    def test_a_good_manifest_is_served_as_it_is_written(self) -> None:
        parsed = parse(text())
        self.assertEqual((parsed.build, parsed.total_bytes, len(parsed.files)), ("1.4.4", 7, 2))
        self.assertEqual(json.loads(parsed.dump()), json.loads(text()))

    @proves("thing: Content manifest")
    def test_a_manifest_that_breaks_any_rule_is_refused(self) -> None:
        entry = {"path": "a", "size": 0, "sha256": HASH}
        twice = [entry, {**entry, "path": "A"}]
        for broken in (
            b"",
            b"x",
            b"[]",
            b"7",
            b"[" * 100_000,
            text(files=None),
            text(files=[]),
            text(files={}),
            text(files=[7]),
            text(totalBytes=8),
            text(totalBytes=7.0),
            text(totalBytes=None),
            text(files=[entry, {**entry, "path": "Z"}], totalBytes=0),
            text(files=sorted(twice, key=lambda e: str(e["path"])), totalBytes=0),
            text(files=[entry, entry], totalBytes=0),
            *(
                with_entry(path=p)
                for p in ("", "/a", "a/", "../a", "a\\b", "a:b", "a\u0001", "%41", 7)
            ),
            *(with_entry(size=s) for s in (-1, 1.5, "3", None, True)),
            *(with_entry(sha256=h) for h in ("A" * 64, "a" * 63, "g" * 64, HASH + "\n", None)),
        ):
            self.assertRaises(BadManifest, parse, broken)

    @given(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=9))
    @settings(max_examples=50, deadline=None)
    def test_an_invalid_list_of_files_is_a_bad_manifest(self, files: Any) -> None:
        self.assertRaises(BadManifest, parse, json.dumps({"files": files}).encode())

    def test_a_byte_order_mark_is_forgiven(self) -> None:
        self.assertEqual(parse(b"\xef\xbb\xbf" + text()).build, "1.4.4")

    def test_paths_are_sorted_by_their_bytes(self) -> None:
        paths = ["é", "z", "Y", "a/b", "a.b"]
        result = make("x", [ManifestEntry(path, 0, HASH) for path in paths])
        self.assertEqual(list(result.files), ["Y", "a.b", "a/b", "z", "é"])
        self.assertEqual(parse(result.dump()), result)


class BuilderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.root = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.folder, self.output = self.root / "game", self.root / "manifest.json"
        self.write("A/b.bin", b"b" * 3_000_000)
        self.write("c.txt", b"c")
        self.write("empty", b"")

    def write(self, path: str, body: bytes) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_bytes(body)

    def build(self, **more: Any) -> Any:
        return build_manifest(self.folder, "1.4.4", self.output, **more)

    @proves("thing: Content manifest")
    def test_every_file_is_hashed_and_the_result_can_be_served(self) -> None:
        text: list[HashingProgress] = []
        made = self.build(progress=text.append)
        self.assertEqual(list(made.files), ["A/b.bin", "c.txt", "empty"])
        entry = made.files["A/b.bin"]
        self.assertEqual(entry.sha256, hashlib.sha256(b"b" * 3_000_000).hexdigest())
        self.assertEqual(load_manifest(self.output), made)
        self.assertEqual((text[-1].files_done, text[-1].bytes_done), (3, 3_000_001))
        self.assertEqual(text[-1].bytes_total, 3_000_001)
        self.assertEqual(sorted(os.listdir(self.root)), ["game", "manifest.json"])

    def test_links_dot_files_and_the_manifest_itself_stay_out(self) -> None:
        self.write(".git/config", b"x")
        self.write(".hidden", b"x")
        (self.folder / "link").symlink_to("/etc/passwd")
        (self.folder / "links").symlink_to(self.root)
        inside = self.folder / "manifest.json"
        for _ in range(2):
            made = build_manifest(self.folder, "1.4.4", inside)
            self.assertEqual(list(made.files), ["A/b.bin", "c.txt", "empty"])

    def test_the_readme_of_init_is_left_out_beside_a_games_files(self) -> None:
        """The README.txt that ``svcctl init`` writes, or wrote in 0.1.0, is left out.

        The README.txt of a game is listed.
        """
        for note in (
            host_creation.README,
            "Put the game's files here, then run: svcctl content manifest . --config ..\n",
        ):
            self.write("README.txt", note.encode())
            self.assertEqual(list(self.build().files), ["A/b.bin", "c.txt", "empty"])
        self.write("README.txt", b"How to play")
        self.write("docs/README.txt", host_creation.README.encode())
        result = ["A/b.bin", "README.txt", "c.txt", "docs/README.txt", "empty"]
        self.assertEqual(list(self.build().files), result)
        alone = self.root / "alone"
        alone.mkdir()
        (alone / "README.txt").write_text(host_creation.README)
        self.assertEqual(list(build_manifest(alone, "1.4.4", self.output).files), ["README.txt"])

    def test_an_interrupted_build_goes_on_where_it_was(self) -> None:
        stop = Event()

        def interrupt(progress: HashingProgress) -> None:
            if progress.files_done == 1:
                stop.set()

        self.write("z.bin", b"z" * 5_000_000)
        with self.assertRaises(BuildFailed):
            self.build(progress=interrupt, workers=1, stop=stop)
        self.assertFalse(self.output.exists())
        limit = json.loads((self.root / "manifest.json.partial").read_bytes())["done"]
        self.assertEqual([row[0] for row in limit], ["A/b.bin"])
        read: list[str] = []
        made = self.build(progress=lambda p: read.append(p.path))
        self.assertNotIn("A/b.bin", read)
        self.assertEqual(len(made.files), 4)
        self.assertTrue(verify_manifest(self.folder, made).good)

    def test_a_kept_hash_counts_only_while_the_file_is_unchanged(self) -> None:
        observed = (self.folder / "c.txt").stat()
        row = ["c.txt", 1, observed.st_mtime_ns - 1, "f" * 64]
        partial = {"build": "1.4.4", "done": [row]}
        (self.root / "manifest.json.partial").write_text(json.dumps(partial))
        self.assertEqual(self.build().files["c.txt"].sha256, hashlib.sha256(b"c").hexdigest())

    def test_a_broken_partial_file_is_ignored(self) -> None:
        for broken in (b"x", b"{}", b'{"build":"1.4.4","done":[[1]]}', b'{"build":"1.4.4"}'):
            (self.root / "manifest.json.partial").write_bytes(broken)
            self.assertEqual(len(self.build().files), 3)

    def test_bad_names_and_empty_folders_fail_with_one_line(self) -> None:
        self.write("a:b", b"x")
        with self.assertRaises(BuildFailed) as caught:
            self.build()
        self.assertIn("a:b", str(caught.exception))
        with self.assertRaises(BuildFailed):
            build_manifest(self.root / "nothing", "x", self.output)

    def test_name_that_windows_cannot_hold_is_refused_by_name(self) -> None:
        for name in ("aux.txt", "COM1", "foo.", "end ", "data/nul", "PROGRA~1.DLL", "a\u202eb"):
            with self.subTest(name=name):
                self.write(name, b"x")
                with self.assertRaises(BuildFailed) as caught:
                    self.build()
                self.assertIn(repr(name), str(caught.exception))
                (self.folder / name).unlink()
                self.assertTrue(self.build())

    def test_file_with_the_name_of_a_folder_is_refused_by_name(self) -> None:
        self.write("a", b"x")
        with self.assertRaises(BuildFailed) as caught:
            self.build()
        self.assertIn("'a'", str(caught.exception))

    @given(
        st.lists(
            st.lists(
                st.one_of(
                    st.sampled_from(["aux.txt", "COM1", "a", "A", "A.", "é", "%41", "B~1.TXT"]),
                    st.text(
                        st.characters(exclude_characters="/\0", exclude_categories=["Cs"]),
                        min_size=1,
                        max_size=8,
                    ).filter(lambda name: name.strip(".")),
                ),
                min_size=1,
                max_size=3,
            ),
            min_size=1,
            max_size=3,
        )
    )
    @settings(max_examples=200, deadline=None)
    def test_launcher_accepts_whatever_the_builder_accepts(self, paths: list[list[str]]) -> None:
        with tempfile.TemporaryDirectory() as root:
            for parts in paths:
                place = Path(root, "game", *parts)
                try:
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(b"x")
                except OSError:
                    assume(False)
            try:
                made = build_manifest(Path(root, "game"), "1", Path(root, "manifest.json"))
            except BuildFailed:
                return
            self.assertEqual(
                [file.path for file in read_listing(made.dump("game.exe")).files],
                list(made.files),
            )

    def test_names_that_differ_only_in_case_stop_the_build(self) -> None:
        self.write("C.TXT", b"x")
        self.assertRaises(BuildFailed, self.build)

    def test_a_file_that_changes_while_it_is_read_fails_the_build(self) -> None:
        def touch(progress: HashingProgress) -> None:
            os.utime(self.folder / "A/b.bin", ns=(1, 1))

        self.assertRaises(BuildFailed, self.build, progress=touch, workers=1)

    def test_verify_distinguishes_missing_wrong_size_and_wrong_hash(self) -> None:
        self.write("d", b"dd")
        self.write("e", b"ee")
        made = self.build()
        self.assertTrue(verify_manifest(self.folder, made).good)
        (self.folder / "c.txt").unlink()
        self.write("d", b"ddd")
        self.write("e", b"ex")
        result = verify_manifest(self.folder, made)
        self.assertFalse(result.good)
        self.assertEqual(result, builder.Verified(("A/b.bin", "empty"), ("c.txt",), ("d",), ("e",)))

    def test_a_missing_manifest_file_raises_bad_manifest(self) -> None:
        self.assertRaises(BadManifest, load_manifest, self.root / "none.json")
