"""Repeated heads are parsed only once, and nothing leaks from one head into another."""

import tracemalloc
from typing import Any

from attrs import frozen
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge import wording
from svcserver.edge.verdicts import Forward
from svcserver.edge.wording import answer_head, request_head
from svcserver.gateway.proxy_policy import notes_of
from svcserver.http import heads
from svcserver.http.heads import LONGEST, Fault, HeadCache, read_request, read_response
from svcserver.web.request import ParsedHead

REQUEST = b"GET /party HTTP/1.1\r\nHost: x\r\nExpect-More: 1\r\nCookie: a\r\n\r\n"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Powered-By: y\r\n\r\n"


@frozen
class Dropping:
    """The part of a ProxyPolicy that decides which header fields are dropped."""

    dropped: frozenset[bytes] = frozenset()
    hidden: frozenset[bytes] = frozenset()


def forward(added: bytes = b"") -> Forward:
    nowhere: Any = None
    return Forward(nowhere, "metagame", added)


def copy(raw: bytes) -> bytes:
    """Return equal bytes as a new object, like the bytes of the next request."""
    return bytes(bytearray(raw))


def fields(count: int, length: int = 200) -> list[bytes]:
    """Return this many header fields with different names."""
    return [b"%x:%b\r\n" % (n + 16, b"y" * (length // count)) for n in range(count)]


def connection(name: bytes, count: int) -> bytes:
    """Return a Connection header field that names this many other fields."""
    return b"Connection: " + b",".join(name % (n + 16) for n in range(count)) + b"\r\n"


def whole_head(book: HeadCache[object], raw: bytes) -> int:
    """Cache a whole head, as the services behind the gateway do.

    Return the number of bytes that the cache counts for it.
    """
    book.keep(raw, ParsedHead(raw))
    return book.weight(raw)


def field_block(book: HeadCache[object], raw: bytes) -> int:
    """Cache a head as gateway and relay do, with the fields that they forward."""
    block = raw.partition(b"\r\n")[2]
    made = heads._block(block, 1, passed_on=True)
    made.lines[frozenset()] = copy(block)
    book.keep(block, made)
    return book.weight(block)


class BoundTests(SynchronousTestCase):
    def test_a_long_list_in_a_connection_field_is_not_remembered(self) -> None:
        before = wording._cached_removed.cache_info().currsize
        for number in range(20):
            names = b",".join(b"n%d-%d" % (number, index) for index in range(1_000))
            raw = (
                b"GET /party HTTP/1.1\r\nHost: x\r\nConnection: "
                + names
                + b"\r\nN%d-7: a\r\n\r\n" % number
            )
            head = read_request(raw)
            assert not isinstance(head, Fault)
            self.assertNotIn(b"-7: a", request_head(head, forward(), Dropping()))
        self.assertEqual(wording._cached_removed.cache_info().currsize, before)

    def test_the_weight_of_a_head_is_its_memory(self) -> None:
        self.patch(heads, "_BLOCKS", HeadCache(most=1))
        for name, some in (("few", fields(12)), ("many", fields(251)), ("named", fields(230, 0))):
            self.assert_counted(name, some)
        for names in (10, 200, 450):
            self.assert_counted(f"{names} in a Connection field", [connection(b"%x", names)])
        self.assert_counted("Connection fields", [connection(b"%x", 2)] * 90)
        self.assert_counted("a long value", [b"A: " + b"y" * 1_900 + b"\r\n"])
        self.assert_counted("a long name", [connection(b"%x" + b"y" * 1_900, 1)])

    def test_the_weight_of_a_line_is_its_memory(self) -> None:
        uid = b"/UID-%08x-0000-4000-8000-000000000000"
        for target in (b"/%d", b"/party" + uid, b"/a?" + b"b" * 1_900 + b"%d"):
            book: HeadCache[object] = HeadCache(1 << 40, each=heads.EACH_LINE)
            self.patch(heads, "_LINES", book)
            lines = [b"POST " + target % n + b" HTTP/1.1\r\n" for n in range(60)]
            notes_of(read_request(lines.pop() + b"Host: x\r\n\r\n"))
            tracemalloc.start()
            for line in lines:
                notes_of(read_request(line + b"Host: x\r\n\r\n"))
            used, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertEqual(len(book), 60)
            self.assertLess(used, sum(map(book.weight, lines)) * 1.05, target)

    def assert_counted(self, name: str, some: list[bytes]) -> None:
        """Assert that the heads in each cache need hardly more memory than the cache counts."""
        raws = [
            copy(b"GET /%d HTTP/1.1\r\nHost: x%d\r\n" % (n, n) + b"".join(some) + b"\r\n")
            for n in range(60)
        ]
        for read in (whole_head, field_block):
            book: HeadCache[object] = HeadCache(most=1 << 40)
            tracemalloc.start()
            counted = sum(read(book, copy(raw)) for raw in raws)
            used, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            self.assertEqual(len(book), len(raws), name)
            self.assertLess(used, counted * 1.05, (name, read))

    def test_the_cache_of_heads_is_bounded(self) -> None:
        book: HeadCache[int] = HeadCache(most=1_000_000)
        for number in range(2_000):
            book.keep(b"%d" % number + b"x" * 1_000, number)
        self.assertLess(len(book) * book.weight(b"x" * 1_000), 1_000_001)
        self.assertGreater(len(book), 100)

    def test_a_head_that_is_used_stays_cached(self) -> None:
        book: HeadCache[int] = HeadCache(most=20_000)
        book.keep(b"often", 1)
        for number in range(1_000):
            book.keep(b"%d" % number, number + 1)
            self.assertEqual(book.get(b"often"), 1)
        self.assertIsNone(book.get(b"0"))
        self.assertLess(len(book), 100)

    def test_a_long_head_is_not_kept(self) -> None:
        book: HeadCache[int] = HeadCache()
        book.keep(b"x" * (LONGEST + 1), 1)
        self.assertEqual(len(book), 0)


class RememberingTests(SynchronousTestCase):
    def test_equal_header_fields_are_parsed_once(self) -> None:
        first, again = (
            read_request(REQUEST),
            read_request(copy(REQUEST).replace(b"party", b"guild")),
        )
        self.assertEqual((first.target, again.target), (b"/party", b"/guild"))
        self.assertIs(first.headers, again.headers)
        self.assertIs(read_response(RESPONSE, b"GET"), read_response(copy(RESPONSE), b"POST"))

    def test_a_head_that_differs_by_one_byte_is_parsed_again(self) -> None:
        second = REQUEST.replace(b"/party", b"/party2")
        self.assertEqual(read_request(second).target, b"/party2")
        self.assertEqual(read_request(REQUEST).target, b"/party")

    def test_a_cached_get_response_does_not_give_head_a_body(self) -> None:
        for method, length in ((b"GET", 2), (b"HEAD", 0), (b"GET", 2), (b"HEAD", 0)):
            self.assertEqual(read_response(copy(RESPONSE), method).length, length)

    def test_long_heads_are_not_kept(self) -> None:
        long = REQUEST[:-2] + b"X: " + b"y" * 3_000 + b"\r\n\r\n"
        self.assertIsNot(read_request(long).headers, read_request(copy(long)).headers)
        answer = RESPONSE[:-2] + b"X: " + b"y" * 3_000 + b"\r\n\r\n"
        self.assertIsNot(read_response(answer, b"GET"), read_response(copy(answer), b"GET"))

    def test_an_invalid_head_is_refused_each_time(self) -> None:
        for _ in range(2):
            self.assertRaises(Fault, read_request, b"GET / HTTP/1.1\r\n\r\n")

    def test_a_field_that_one_service_drops_another_passes_on(self) -> None:
        head, answer = read_request(REQUEST), read_response(RESPONSE, b"GET")
        strict: Any = Dropping(frozenset([b"cookie"]), frozenset([b"x-powered-by"]))
        mild: Any = Dropping()
        for _ in range(2):
            self.assertNotIn(b"Cookie", request_head(head, forward(), strict))
            self.assertIn(b"Cookie: a\r\n", request_head(head, forward(), mild))
            self.assertNotIn(b"X-Powered-By", _render_head(answer, strict))
            self.assertIn(b"X-Powered-By: y\r\n", _render_head(answer, mild))

    def test_added_fields_belong_to_one_request(self) -> None:
        head = read_request(REQUEST)
        policy: Any = Dropping()
        for peer in (b"X-Forwarded-For: 1.1.1.1\r\n", b"X-Forwarded-For: 2.2.2.2\r\n"):
            sent = request_head(head, forward(peer), policy)
            self.assertEqual(sent.count(b"X-Forwarded-For"), 1)
            self.assertIn(peer, sent)


def _render_head(answer: Any, policy: Any) -> bytes:
    return answer_head(answer, policy.hidden, framed=False, close=False)
