"""Random heads and bodies: all parsers give the same result, or raise Fault."""

import contextlib
import itertools
from typing import Any

import httptools
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.address import IPv6Address, UNIXAddress
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.exchange import LAST_CHUNK, chunk
from svcserver.http import heads
from svcserver.http.bodies import Chunked, CountedBody
from svcserver.http.heads import (
    MAX_HEAD,
    Fault,
    HeadCache,
    RequestHead,
    find_end,
    read_request,
    read_response,
)
from svcserver.http.peers import peer_of

GOOD = (
    b"POST /a?b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nConnection: close\r\n"
    b"Upgrade: x\r\nA: \xff\r\n\r\n"
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Return a valid head with a few bytes changed, inserted or removed."""
    data = bytearray(GOOD)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        how = draw(st.integers(0, 2))
        byte = draw(st.sampled_from(b"\r\n \t:,;\x00\x7f\xffaA0/.+-"))
        if how == 0:
            data[at] = byte
        elif how == 1:
            data.insert(at, byte)
        else:
            del data[at]
    return bytes(data)


def outcome(pieces: list[bytes], *, resumed: bool) -> tuple[int, str]:
    """Search for the end of a head after each piece, until the end or a fault is found.

    Return the number of the last piece that was searched, and the position of the head's end or the
    kind of fault.
    """
    buffer, searched = b"", 0
    for number, piece in enumerate(pieces):
        buffer += piece
        try:
            end = find_end(buffer, 60, searched)
        except Fault as fault:
            return number, fault.kind
        if end >= 0:
            return number, str(end)
        searched = len(buffer) if resumed else 0
    return len(pieces), ""


def reading(raw: bytes) -> tuple[Any, ...] | str:
    """Return the parsed head, or the fault."""
    try:
        head = read_request(raw)
    except Fault as fault:
        return fault.kind
    return tuple(getattr(head, name) for name in RequestHead.__slots__ if name not in PARTS)


PARTS = ("block", "line")  # cached objects, whose contents are compared as other attributes


class Counting(bytes):
    """A buffer that counts the bytes that are searched in it."""

    searched = 0

    def find(self, sub: Any, start: Any = 0, end: Any = None) -> int:
        Counting.searched += len(self) - start
        return super().find(sub, start, end)


class LineFeeds:
    """A pattern that counts the bytes that it searches."""

    searched = 0

    def search(self, buffer: bytes, at: int) -> None:
        self.searched += len(buffer) - at


class Count:
    def __init__(self) -> None:
        self.names: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.names.append(name.lower())


class HeadTests(SynchronousTestCase):
    @settings(max_examples=300, deadline=None)
    @given(damaged())
    def test_every_accepted_head_is_accepted_by_llhttp(self, data: bytes) -> None:
        try:
            end = find_end(data)
            if end < 0:
                return
            head = read_request(data[:end])
        except Fault as fault:
            self.assertIn(fault.status, (400, 417, 431))
            return
        if not head.is_plain or head.method != b"POST":
            return
        count = Count()
        parser = httptools.HttpRequestParser(count)
        with contextlib.suppress(httptools.HttpParserUpgrade):
            parser.feed_data(data[:end])
        self.assertEqual(count.names, [lower for _, lower, _ in head.headers])
        self.assertLessEqual(len(head.values(b"content-length")), 1)

    @settings(max_examples=300, deadline=None)
    @given(damaged())
    def test_fields_that_came_before_change_no_reading(self, data: bytes) -> None:
        with contextlib.suppress(Fault):
            read_request(b"GET /before HTTP/1.1\r\n" + data.partition(b"\r\n")[2])
        again = reading(data)
        self.patch(heads, "_BLOCKS", HeadCache())
        self.patch(heads, "_LINES", HeadCache())
        self.assertEqual(again, reading(data))

    @settings(max_examples=300, deadline=None)
    @given(damaged())
    def test_a_line_that_came_before_changes_no_reading(self, data: bytes) -> None:
        with contextlib.suppress(Fault):
            read_request(data.partition(b"\r\n")[0] + b"\r\nHost: before\r\n\r\n")
        again = reading(data)
        self.patch(heads, "_BLOCKS", HeadCache())
        self.patch(heads, "_LINES", HeadCache())
        self.assertEqual(again, reading(data))

    def test_a_line_that_llhttp_refuses_fails_with_cached_fields(self) -> None:
        _, _, fields = GOOD.partition(b"\r\n")
        for line, good in ((b"/a", True), (b"foo", False), (b"/b", True), (b"1:", False)):
            head = b"GET " + line + b" HTTP/1.1\r\n" + fields
            self.assertEqual(isinstance(reading(head), tuple), good, line)

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=200), st.sampled_from([b"GET", b"HEAD"]))
    def test_bytes_without_a_status_line_are_refused_as_a_response(
        self, data: bytes, method: bytes
    ) -> None:
        with self.assertRaises(Fault):
            read_response(data.replace(b"HTTP", b"") + b"\r\n\r\n", method)

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.text("\r\nax", min_size=1, max_size=6), max_size=16))
    def test_a_resumed_search_finds_the_same_end_of_a_head(self, texts: list[str]) -> None:
        pieces = [b"GET / ", *(text.encode() for text in texts)]
        self.assertEqual(outcome(pieces, resumed=True), outcome(pieces, resumed=False))

    def test_a_head_in_pieces_is_searched_in_linear_time(self) -> None:
        self.patch(heads, "_BARE_LF", line_feeds := LineFeeds())
        self.patch(Counting, "searched", 0)
        for size in range(1, MAX_HEAD + 1, 64):
            find_end(Counting(b"x" * size), MAX_HEAD, max(size - 64, 0))
        self.assertLess(line_feeds.searched, MAX_HEAD + 1)
        self.assertLess(Counting.searched, MAX_HEAD + 1 + 3 * MAX_HEAD // 64)

    def test_a_valid_head_is_parsed_into_its_fields(self) -> None:
        head = read_request(GOOD)
        self.assertEqual((head.method, head.target, head.length), (b"POST", b"/a?b", 5))
        self.assertFalse(head.keep_alive)
        self.assertEqual((head.upgrade, head.named), (b"x", frozenset([b"close"])))


class PeerTests(SynchronousTestCase):
    def test_an_ipv4_client_of_an_ipv6_socket_keeps_its_address(self) -> None:
        for host, peer in (
            ("203.0.113.9", "203.0.113.9"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("::FFFF:203.0.113.9", "203.0.113.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:cb00:7109", "::ffff:cb00:7109"),
        ):
            self.assertEqual(peer_of(IPv6Address("TCP", host, 1)), peer)

    def test_a_peer_without_an_address_is_not_local(self) -> None:
        self.assertEqual(peer_of(UNIXAddress(b"/run/x")), "")


class BodyTests(SynchronousTestCase):
    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(st.binary(min_size=1, max_size=40), max_size=8),
        st.binary(max_size=20),
        st.lists(st.integers(0, 400), max_size=6),
    )
    def test_chunks_come_out_whole_however_they_are_cut(
        self, parts: list[bytes], after: bytes, cuts: list[int]
    ) -> None:
        data = b"".join(chunk(part) for part in parts) + LAST_CHUNK + after
        body, result, rest = Chunked(), b"", b""
        edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        for begin, end in itertools.pairwise(edges):
            if body.done:
                rest += data[begin:end]
                continue
            part, rest = body.feed(data[begin:end])
            result += part
        self.assertTrue(body.done)
        self.assertEqual((result, rest), (b"".join(parts), after))

    @settings(max_examples=200, deadline=None)
    @given(st.binary(max_size=80))
    def test_noise_never_hangs_or_breaks(self, data: bytes) -> None:
        body = Chunked()
        try:
            for at in range(len(data)):
                if not body.done:
                    body.feed(data[at : at + 1])
        except Fault as fault:
            self.assertEqual(fault.status, 400)

    def test_endless_size_lines_and_trailers_are_refused(self) -> None:
        for data in (b"1;" + b"x" * 2_000, b"0\r\n" + b"A: b\r\n" * 2_000):
            with self.assertRaises(Fault):
                Chunked().feed(data)

    def test_a_body_ends_at_its_length_and_the_rest_is_returned(self) -> None:
        body = CountedBody(3)
        self.assertEqual(body.feed(b"ab"), (b"ab", b""))
        self.assertEqual(body.feed(b"cd"), (b"c", b"d"))
        self.assertTrue(body.done)
