"""Requests that two servers could parse differently, grouped by kind, with the expected results.

The result is either a status or a negative number. A status means that the request is rejected, the
connection ends, and nothing reaches the upstream. The number ``-2`` means that exactly two requests
pass. On the same connection, the message ``SMUGGLED`` follows each case. If the case is rejected,
``SMUGGLED`` must not arrive as a request.
"""

from attrs import frozen

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
H = b"Host: localhost\r\n"
POST = b"POST /p HTTP/1.1\r\n" + H
GET = b"GET /g HTTP/1.1\r\n" + H
ZERO = b"0\r\n\r\n"


@frozen
class Case:
    """One test message: its bytes, and what gateway and relay must do with it."""

    family: str
    section: str  # of RFC 9112 unless it says 9110
    data: bytes
    gateway: int
    relay: int
    body: bytes | None = None  # the expected body of the first request, if it passes


def _family(family: str, section: str, status: int, *cases: bytes, relay: int = 0) -> list[Case]:
    return [Case(family, section, data, status, relay or status) for data in cases]


def _post(*lines: bytes, body: bytes = b"") -> bytes:
    return POST + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


TE = b"Transfer-Encoding: chunked"
CL0, CL5 = b"Content-Length: 0", b"Content-Length: 5"

CASES: list[Case] = [
    *_family(
        "both lengths",
        "6.1",
        400,
        _post(CL5, TE, body=ZERO),
        _post(TE, CL5, body=ZERO),
        _post(CL0, TE, body=ZERO),
        _post(TE, CL0, body=ZERO),
        _post(b"content-length: 5", b"TRANSFER-ENCODING: chunked", body=ZERO),
        _post(CL5, b"Transfer-Encoding: Chunked", body=ZERO),
        _post(b"Content-Length: 4", b"X: y", TE, body=b"1\r\nZ\r\nQ"),
        _post(b"Content-Length: 6", TE, body=b"0\r\n\r\nX"),
    ),
    *_family(
        "unknown transfer coding",
        "6.1",
        400,
        _post(b"Transfer-Encoding: gzip, chunked", body=ZERO),
        _post(b"Transfer-Encoding: chunked, identity", body=ZERO),
        _post(b"Transfer-Encoding: identity", body=ZERO),
        _post(b"Transfer-Encoding: xchunked", body=ZERO),
        _post(b"Transfer-Encoding: chunked;q=1", body=ZERO),
        _post(b'Transfer-Encoding: "chunked"', body=ZERO),
        _post(b"Transfer-Encoding:", body=ZERO),
        _post(b"Transfer-Encoding: chunked,", body=ZERO),
        relay=501,
    ),
    *_family(
        "doubled transfer coding",
        "6.1",
        400,
        _post(TE, TE, body=ZERO),
        _post(TE, b"Transfer-Encoding: identity", body=ZERO),
        _post(b"Transfer-Encoding: identity", TE, body=ZERO),
        _post(TE, b"transfer-encoding: x", body=ZERO),
        _post(b"Transfer-Encoding: chunked, chunked", body=ZERO),
        _post(TE, b"Transfer-Encoding:", body=ZERO),
        _post(b"Transfer-Encoding:", TE, body=ZERO),
        b"POST /p HTTP/1.0\r\n" + H + TE + b"\r\n\r\n" + ZERO,
        relay=501,
    ),
    *_family(
        "length syntax",
        "6.3",
        400,
        _post(b"Content-Length: +5", body=b"hello"),
        _post(b"Content-Length: -5", body=b"hello"),
        _post(b"Content-Length: 0x5", body=b"hello"),
        _post(b"Content-Length: 5 5", body=b"hello"),
        _post(b"Content-Length: 5.0", body=b"hello"),
        _post(b"Content-Length: five", body=b"hello"),
        _post(b"Content-Length:", body=b"hello"),
        _post(b"Content-Length: 99999999999999999999", body=b"hello"),
        _post(b"Content-Length: \xb2", body=b"he"),
    ),
    *_family(
        "repeated length",
        "6.3",
        400,
        _post(CL5, CL5, body=b"hello"),
        _post(CL5, CL0, body=b"hello"),
        _post(CL0, CL5, body=b"hello"),
        _post(b"Content-Length: 5, 5", body=b"hello"),
        _post(b"Content-Length: 0, 5", body=b"hello"),
        _post(b"Content-Length: 5,", body=b"hello"),
        _post(CL5, b"content-length: 005", body=b"hello"),
        _post(CL5, b"X: y", b"CONTENT-LENGTH: 6", body=b"hello"),
    ),
    *_family(
        "bare line feed",
        "2.2",
        400,
        b"POST /p HTTP/1.1\nHost: localhost\n\n",
        POST + b"A: b\nContent-Length: 5\r\n\r\nhello",
        POST + b"A: b\n\r\n",
        POST + b"A: b\r\n\n",
        b"GET /g HTTP/1.1\nHost: localhost\r\n\r\n",
        GET + b"\nGET /x HTTP/1.1\r\n" + H + b"\r\n",
        POST + b"Content-Length: 5\n\nhello",
        POST + b"Transfer-Encoding: chunked\n\r\n" + ZERO,
    ),
    *_family(
        "bare carriage return, NUL and controls",
        "2.2",
        400,
        POST + b"A: b\rContent-Length: 5\r\n\r\nhello",
        POST + b"A\r: b\r\n\r\n",
        b"GET /g HTTP/1.1\rX: y\r\n" + H + b"\r\n",
        GET + b"A: b\x00c\r\n\r\n",
        GET + b"A\x00: b\r\n\r\n",
        GET + b"A: b\x0bc\r\n\r\n",
        GET + b"Content-Length\x0b: 5\r\n\r\nhello",
        GET + b"A: b\x7f\r\n\r\n",
    ),
    *_family(
        "folded line",
        "5.2",
        400,
        _post(b"Transfer-Encoding:", b" chunked", body=ZERO),
        _post(b"Transfer-Encoding:", b"\tchunked", body=ZERO),
        _post(b"A: b", b" Content-Length: 5", body=b"hello"),
        _post(b"Content-Length:", b" 5", body=b"hello"),
        b"GET /g HTTP/1.1\r\n Host: localhost\r\n\r\n",
        b"GET /g HTTP/1.1\r\n\tA: b\r\n" + H + b"\r\n",
        GET + b" \r\n\r\n",
        GET + b"A: b\r\n \r\n\r\n",
    ),
    *_family(
        "field name",
        "5.1",
        400,
        _post(b"Content-Length : 5", body=b"hello"),
        _post(b"Transfer-Encoding : chunked", body=ZERO),
        _post(b"Transfer-Encoding\t: chunked", body=ZERO),
        _post(b"Content Length: 5", body=b"hello"),
        _post(b": nothing"),
        _post(b"no colon at all"),
        _post(b"Content-Length\xa0: 5", body=b"hello"),
        _post(b"(Content-Length): 5", body=b"hello"),
    ),
    *_family(
        "chunk size",
        "7.1",
        400,
        _post(TE, body=b"0x5\r\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b"+5\r\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b"-1\r\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b"5 \r\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b" 5\r\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b"\r\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b"g\r\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b"5_0\r\nhello\r\n0\r\n\r\n"),
    ),
    *_family(
        "chunk end",
        "7.1",
        400,
        _post(TE, body=b"5\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b"5\r\nhello\n0\r\n\r\n"),
        _post(TE, body=b"5\r\nhelloXX0\r\n\r\n"),
        _post(TE, body=b"5;a=\nb\r\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b"0\r\nbad trailer\r\n\r\n"),
        _post(TE, body=b"0\r\n\n"),
        _post(TE, body=b"5;\x00\r\nhello\r\n0\r\n\r\n"),
        _post(TE, body=b"5\rhello\r\n0\r\n\r\n"),
    ),
    *_family(
        "target",
        "3.2",
        400,
        b"GET http://localhost/g HTTP/1.1\r\n" + H + b"\r\n",
        b"GET https://evil.example/g HTTP/1.1\r\n" + H + b"\r\n",
        b"GET localhost:80 HTTP/1.1\r\n" + H + b"\r\n",
        b"OPTIONS * HTTP/1.1\r\n" + H + b"\r\n",
        b"GET g HTTP/1.1\r\n" + H + b"\r\n",
        b"GET  /g HTTP/1.1\r\n" + H + b"\r\n",
        b"GET /g a HTTP/1.1\r\n" + H + b"\r\n",
        b"GET ?g HTTP/1.1\r\n" + H + b"\r\n",
        b"GET /g\tx HTTP/1.1\r\n" + H + b"\r\n",
    ),
    *_family(
        "version",
        "2.3",
        400,
        b"GET /g\r\n" + H + b"\r\n",
        b"GET /g HTTP/0.9\r\n" + H + b"\r\n",
        b"GET /g HTTP/2.0\r\n" + H + b"\r\n",
        b"GET /g HTTP/1.2\r\n" + H + b"\r\n",
        b"GET /g HTTP/1.1 \r\n" + H + b"\r\n",
        b"GET /g http/1.1\r\n" + H + b"\r\n",
        b"GET /g HTTP/1.10\r\n" + H + b"\r\n",
        b"GET /g HTTP/11\r\n" + H + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ),
    *_family(
        "host",
        "3.2",
        400,
        b"GET /g HTTP/1.1\r\n\r\n",
        b"GET /g HTTP/1.0\r\n\r\n",
        GET + b"Host: localhost\r\n\r\n",
        GET + b"host: evil.example\r\n\r\n",
        b"GET /g HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET /g HTTP/1.1\r\nHost: a b\r\n\r\n",
        b"GET /g HTTP/1.1\r\nHost: a@b\r\n\r\n",
        b"GET /g HTTP/1.1\r\nHost: a/b\r\n\r\n",
        b"GET /g HTTP/1.1\r\nHost: a,b\r\n\r\n",
        relay=403,
    ),
    *_family(
        "upgrade",
        "9110 7.8",
        400,
        GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n\r\n",
        _post(b"Connection: Upgrade", b"Upgrade: websocket"),
        _post(b"Connection: Upgrade", b"Upgrade: websocket", CL5, body=b"hello"),
        GET + b"Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n\r\n",
        GET + b"Connection: Upgrade\r\nUpgrade: TLS/1.0\r\n\r\n",
        GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n\r\nhello",
        GET + b"Upgrade: websocket\r\nUpgrade: websocket\r\n\r\n",
    ),
    *_family(
        "space or line break before the request line",
        "2.2",
        400,
        *(blank + GET + b"\r\n" for blank in (b"\n", b" ", b"\t", b"\r", b"\r\r\n", b"\n\r\n")),
        *(b"\r\n" + blank + GET + b"\r\n" for blank in (b"\r\n", b"\n", b" ", b"\r", b"\r\n\r\n")),
        b"\x00" + GET + b"\r\n",
        b"\xef\xbb\xbf" + GET + b"\r\n",
    ),
    *(
        Case("one empty line before the request line", "2.2", data, -2, -2, body)
        for data, body in (
            (b"\r\n" + GET + b"\r\n", b""),
            (b"\r\n" + GET + b"\r\n\r\n", b""),
            (GET + b"\r\n\r\n", b""),
            (b"\r\n" + POST + CL5 + b"\r\n\r\nhello\r\n", b"hello"),
            (POST + CL5 + b"\r\n\r\nhello\r\n", b"hello"),
            (POST + CL0 + b"\r\n\r\n\r\n", b""),
            (POST + b"Content-Length: 7\r\n\r\nhello\r\n\r\n", b"hello\r\n"),
            (POST + TE + b"\r\n\r\n5\r\nhello\r\n" + ZERO + b"\r\n", b"hello"),
        )
    ),
    *(
        Case("chunked body on any method", "6.3", data, -2, -2, body)
        for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"PUT")
        for data, body in (
            (method + b" /b HTTP/1.1\r\n" + H + TE + b"\r\n\r\n5\r\nhello\r\n" + ZERO, b"hello"),
            (method + b" /b HTTP/1.1\r\n" + H + CL5 + b"\r\n\r\nhello", b"hello"),
        )
    ),
    *(
        Case("plain and odd, but one reading only", "7.1", data, -2, -2, body)
        for data, body in (
            (_post(TE, body=b"5;ext=1\r\nhello\r\n0\r\n\r\n"), b"hello"),
            (_post(TE, body=b"5\r\nhello\r\n0\r\nTrailer: x\r\n\r\n"), b"hello"),
            (_post(TE, body=b"005\r\nhello\r\n000\r\n\r\n"), b"hello"),
            (_post(b"Transfer-Encoding: CHUNKED", body=ZERO), b""),
            (_post(b"Content-Length: 005", body=b"hello"), b"hello"),
            (_post(b"Connection: Host, Content-Length", CL5, body=b"hello"), b"hello"),
            (_post(b"Connection: Transfer-Encoding", TE, body=ZERO), b""),
            (
                _post(b"TE: trailers", b"Trailer: X", b"Content-Length:  5 ", body=b"hello"),
                b"hello",
            ),
        )
    ),
]
