"""The parser of byte ranges: examples in a table, and a comparison with Python's slicing."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.web.ranges import Span, Unsatisfiable, parse, status_of, wanted
from tests.support.proves import proves


class RangeTests(SynchronousTestCase):
    def test_the_three_forms_of_a_range_are_parsed(self) -> None:
        self.assertEqual(parse(b"bytes=100-199", 5000), Span(100, 200, 5000))
        self.assertEqual(parse(b"bytes=100-", 5000), Span(100, 5000, 5000))
        self.assertEqual(parse(b"bytes=-100", 5000), Span(4900, 5000, 5000))
        self.assertEqual(parse(b"bytes=100-199", 5000).content_range, "bytes 100-199/5000")

    def test_a_range_beyond_the_file_is_cut(self) -> None:
        self.assertEqual(parse(b"bytes=100-9999", 5000), Span(100, 5000, 5000))
        self.assertEqual(parse(b"bytes=0-" + b"9" * 5000, 5), Span(0, 5, 5))
        self.assertEqual(parse(b"bytes=-9999", 5000), Span(0, 5000, 5000))

    @proves("content: 416 range_not_satisfiable")
    def test_any_other_range_header_is_unsatisfiable(self) -> None:
        for text in (
            b"",
            b"bytes",
            b"bytes=",
            b"bytes=-",
            b"bytes=-0",
            b"bytes=5000-",
            b"bytes=9-8",
            b"bytes=a-b",
            b"bytes=5",
            b"bytes=0-1,5-6",
            b"bytes=0-1-2",
            b"bytes=+1-2",
            b"bytes=0x1-2",
            b"bytes= 1-2",
            b"lines=1-2",
            b"bytes=\xb2-3",
            b"bytes=1_0-20",
        ):
            self.assertRaises(Unsatisfiable, parse, text, 5000)
        for text in (b"bytes=0-", b"bytes=0-0", b"bytes=-1"):
            self.assertRaises(Unsatisfiable, parse, text, 0)

    @given(st.integers(0, 50), st.text(alphabet="0123456789-, b", max_size=8))
    @settings(max_examples=300, deadline=None)
    def test_a_span_is_never_empty_and_always_inside(self, size: int, text: str) -> None:
        try:
            span = parse(b"bytes=" + text.encode(), size)
        except Unsatisfiable:
            return
        self.assertTrue(0 <= span.start < span.end <= size)

    @proves("content: 416 range_not_satisfiable")
    @given(st.integers(1, 50), st.integers(0, 60), st.integers(0, 60))
    @settings(max_examples=200, deadline=None)
    def test_a_range_selects_the_same_bytes_as_a_python_slice(
        self, size: int, first: int, last: int
    ) -> None:
        body = bytes(range(size))
        expected = body[first : last + 1] if first <= last else b""
        try:
            span = parse(f"bytes={first}-{last}".encode(), size)
        except Unsatisfiable:
            self.assertEqual(expected, b"")
        else:
            self.assertEqual(body[span.start : span.end], expected)

    def test_several_headers_are_several_ranges(self) -> None:
        self.assertRaises(Unsatisfiable, wanted, [b"bytes=0-1", b"bytes=3-4"], [], '"x"', 50)

    def test_if_range_must_be_our_etag_to_keep_the_range(self) -> None:
        for condition, partial in (([], True), ([b'"x"'], True), ([b'"y"'], False)):
            span, text = wanted([b"bytes=0-1"], condition, '"x"', 50)
            self.assertEqual((text, span.length), (partial, 2 if partial else 50))
        self.assertFalse(wanted([b"bytes=99-"], [b'W/"x"'], '"x"', 50)[1])

    def test_if_none_match_takes_lists_weak_tags_and_the_star(self) -> None:
        for value in (b'"x"', b'W/"x"', b'"y", "x"', b"*"):
            self.assertEqual(status_of([], [value], '"x"'), 304)
        for values in ([], [b""], [b'"y"'], [b"x"], [b'"X"']):
            self.assertEqual(status_of([], values, '"x"'), 200)

    def test_if_match_names_the_exact_tag_or_the_star(self) -> None:
        for values in ([b'"x"'], [b'"y",\t"x"'], [b'"y"', b'"x"'], [b"*"], [b" * "]):
            self.assertEqual(status_of(values, [], '"x"'), 200)
        for values in ([b""], [b'W/"x"'], [b'"y"'], [b"x"], [b'"X"'], [b'"y", *'], [b"," * 9999]):
            self.assertEqual(status_of(values, [], '"x"'), 412)

    def test_if_match_is_judged_before_if_none_match(self) -> None:
        self.assertEqual(status_of([b'"y"'], [b'"x"'], '"x"'), 412)
        self.assertEqual(status_of([b'"x"'], [b'"x"'], '"x"'), 304)
