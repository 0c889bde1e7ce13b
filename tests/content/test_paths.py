"""The file paths that are allowed: a table, and a comparison with a simple reference."""

from urllib.parse import quote, unquote_to_bytes

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.content.paths import UnsafePath, decode, is_clean
from tests.support.proves import proves

CLEAN = ["a", "B.bin", "/", "41", "%41", "%C3%A9", "%20"]
UNCLEAN = ["..", ".", "%2f", "%2F", "%5c", "%2e", "%00", "%25", "%", "\\", ":", "*", "%3a", "%3F"]
UNCLEAN += ['"', "<", "|", "%0a", "\x7f", "%ff", "%zz"]
PIECES = st.sampled_from([*CLEAN, *UNCLEAN])


class PathTests(SynchronousTestCase):
    @proves("content: 400 bad_path")
    def test_every_unclean_form_is_refused(self) -> None:
        for raw in (
            b"",
            b"/",
            b"/a",
            b"a/",
            b"a//b",
            b".",
            b"..",
            b"a/../b",
            b"a/./b",
            b"a\\b",
            b"a%5Cb",
            b"a%2Fb",
            b"%2e%2e",
            b"a%00",
            b"%252e",
            b"%2541",
            b"a%",
            b"a%4",
            b"a%zz",
            b"a\x01b",
            b"a%1f",
            b"a%7F",
            b"a%c2%85",
            b"\xff",
            b"%ff",
            *(b"a" + bytes([c]) for c in b':*"<>|'),
            b"a%3a",
            b"a%3F",
            b"x" * 5000,
        ):
            self.assertRaises(UnsafePath, decode, raw)

    def test_paths_are_accepted_up_to_the_limits_of_each_rule(self) -> None:
        self.assertEqual(decode(b"x" * 4096), "x" * 4096)
        self.assertRaises(UnsafePath, decode, b"x" * 4097)
        for good in ("X", "a~b", "a\xa0b", "a\ud7ffb", "a\ue000b"):
            self.assertIs(is_clean(good), True, ascii(good))
        for bad in ("a\x7fb", "a\x9fb", "a\ud800b", "a\udfffb", "a\x1fb", "", 7, None, b"a"):
            self.assertIs(is_clean(bad), False, ascii(bad))

    def test_clean_paths_are_decoded_once(self) -> None:
        for raw, path in {
            b"A/b.bin": "A/b.bin",
            b"a%20b": "a b",
            b"a b": "a b",
            b"%41": "A",
            b"%C3%A9": "é",
            b"a..b/.c/...": "a..b/.c/...",
            b"100%25.txt": "100%.txt",
            b"a+b": "a+b",
        }.items():
            self.assertEqual(decode(raw), path)

    @proves("content: 400 bad_path")
    @given(st.lists(PIECES, max_size=8))
    @settings(max_examples=300, deadline=None)
    def test_accepted_paths_stay_inside_the_folder(self, parts: list[str]) -> None:
        raw = "".join(parts).encode()
        try:
            path = decode(raw)
        except UnsafePath:
            return
        self.assertEqual(path.encode(), unquote_to_bytes(raw))
        self.assertFalse(set(path) & set('\\:*?"<>|'))
        self.assertFalse({"", ".", ".."} & set(path.split("/")))
        self.assertTrue(is_clean(path))

    @given(st.text(max_size=20))
    @settings(max_examples=200, deadline=None)
    def test_every_path_a_manifest_may_hold_can_be_asked_for(self, path: str) -> None:
        if is_clean(path) and "\\" not in path:
            self.assertEqual(decode(quote(path).encode()), path)

    def test_a_manifest_path_that_is_not_text_is_refused(self) -> None:
        for value in (None, 7, b"a", ["a"], "a\ud800"):
            self.assertFalse(is_clean(value))
