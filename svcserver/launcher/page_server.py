"""The HTTP server of the page, on loopback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from attrs import frozen
from twisted.application.service import Service
from twisted.logger import Logger

from svcserver.http.bodies import Body, body_of
from svcserver.http.connection import CONTINUE, Connection, Connections, Deadlines
from svcserver.http.heads import Fault, RequestHead, read_request
from svcserver.http.peers import peer_of
from svcserver.kernel import json
from svcserver.launcher.page_guard import foreign

# The browser gets the link with its token as an argument, and on Linux every user may list the
# arguments of all processes. So a link is refused if another user opened the connection; the kernel
# shows who opened it. On Windows, only the same user and administrators can see the arguments.
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LONGEST = 16 << 20  # bytes of a table that are read: a hundred thousand connections


def is_another_users(client: int, server: int) -> bool:
    """Return whether another user's program opened the connection; False if that is unknown."""
    if sys.platform != "linux":
        return False
    return owner_in(map(_read, TABLES), client, server) not in (None, os.getuid())


def owner_in(tables: Iterable[str], client: int, server: int) -> int | None:
    """Find a connection's client in the text of ``/proc/net/tcp``; return its user id, or None.

    In each line, the second and third fields are the local and the remote address, such as
    ``0100007F:A1B2``, with the port in hexadecimal. The eighth field is the user id.
    """
    ends = f":{client:04X}", f":{server:04X}"
    for table in tables:
        for line in table.splitlines()[1:]:
            fields = line.split()
            if len(fields) > 7 and fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                return int(fields[7])
    return None


def _read(table: Path) -> str:
    try:
        with table.open("rb") as file:
            return file.read(LONGEST).decode("ascii", "replace")
    except OSError:
        return ""


log = Logger()

IDLE_S, RECEIVE_S = 120.0, 20.0
MAX_BODY = 64 * 1024
MOST_CONNECTIONS = 64
SESSION_HEADER = b"x-launcher-session"
ENTER = "/api/enter"  # where a browser gets a session for a link's token
_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
}
_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "; ".join(_POLICY),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@frozen
class PageReply:
    """A reply to the browser."""

    status: int
    body: bytes
    kind: str = "application/json"

    @classmethod
    def from_value(cls, value: Any, status: int = 200) -> PageReply:
        """Return a JSON reply."""
        return cls(status, json.dump(value))


@frozen
class PageRequest:
    """A request that has passed the page's access control."""

    method: str
    path: str
    session: bytes
    body: bytes


Answerer = Callable[[PageRequest], PageReply]


class PageConnection(Connection):
    """A connection from the browser to the page's loopback port."""

    limits = Deadlines(headers_s=RECEIVE_S, keep_alive_s=IDLE_S, idle_s=RECEIVE_S)
    _head: RequestHead | None = None
    _body: Body | None = None
    _parts = b""
    _to_head = False  # the answer has no body
    known = False  # has sent the session's secret

    def connectionMade(self) -> None:
        super().connectionMade()
        self.next_request()
        if len(self.factory.channels) > MOST_CONNECTIONS:
            self.factory.make_room()

    def start_request(self, raw: bytes) -> None:
        head = read_request(raw)
        self._to_head = head.method == b"HEAD"
        why = foreign(
            self.peer,
            self.factory.own,
            head.method,
            hosts=head.values(b"host"),
            origins=head.values(b"origin"),
            sites=head.values(b"sec-fetch-site"),
            modes=head.values(b"sec-fetch-mode"),
        )
        if why or not head.is_plain:
            log.info("refused a request from outside the page: {why}", why=why or "target")
            self._refuse(403, "forbidden")
        elif head.length is None or head.length > MAX_BODY:
            self._refuse(413, "body_too_large")
        else:
            self._head, self._body, self._parts = head, body_of(head.length), b""
            self.within(RECEIVE_S, self.cut)
            if head.expects and head.has_body and not self.waiting:
                self.transport.write(CONTINUE)
            self.receive()
            self._try_answer()

    def take_body(self) -> None:
        if self._body is None:
            return
        part, self.waiting = self._body.feed(self.waiting)
        self._parts += part
        self._try_answer()

    def _try_answer(self) -> None:
        head, body = self._head, self._body
        if head is None or body is None or not body.done:
            return
        self._head = self._body = None
        path = head.target.partition(b"?")[0].decode("latin-1")
        session = b"".join(head.values(SESSION_HEADER)[:1])
        if path == ENTER and self.factory.is_another_users(
            self.transport.getPeer().port, self.factory.port
        ):
            log.warn("another user of this PC tried to open the launcher's page")
            self._refuse(403, "user")
            return
        reply = self.factory.answer(PageRequest(head.method.decode(), path, session, self._parts))
        is_api = head.method == b"GET" and path.startswith("/api/")
        self.known = self.known or (is_api and reply.status == 200)
        self._write(reply, close=not head.keep_alive)

    def on_fault(self, fault: Fault) -> None:
        self._refuse(fault.status, fault.code)

    def _refuse(self, status: int, code: str) -> None:
        self._write(PageReply.from_value({"error": code}, status), close=True)

    def _write(self, reply: PageReply, *, close: bool) -> None:
        lines = {
            "Content-Type": reply.kind,
            "Content-Length": str(len(reply.body)),
            **HEADERS,
            **({"Connection": "close"} if close else {}),
        }
        fields = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        reason = _REASONS.get(reply.status, "Refused")
        head = f"HTTP/1.1 {reply.status} {reason}\r\n{fields}\r\n".encode("latin-1")
        self.transport.write(head if self._to_head else head + reply.body)
        self._to_head = False  # an error reply to the next request has a body
        if close:
            self.end(linger=True)
        else:
            self.next_request()


class PageFactory(Connections[PageConnection]):
    """The factory of the page's connections.

    ``own`` is the address that requests must have in their Host header.
    """

    def __init__(
        self,
        clock: Any,
        answer: Answerer,
        another_users: Callable[[int, int], bool] = is_another_users,
    ) -> None:
        super().__init__(clock)
        self._answer, self.is_another_users = answer, another_users
        self.own, self.port = b"", 0

    def buildProtocol(self, addr: Any) -> PageConnection:
        return PageConnection(self, peer_of(addr))

    def make_room(self) -> None:
        """Close the oldest connection without a session; if all have a session, close the newest.

        So other users of this PC, who can also connect, cannot lock the player out.
        """
        strangers = [channel for channel in self.channels if not channel.known]
        (strangers or list(self.channels)[-1:])[0].cut()

    def answer(self, request: PageRequest) -> PageReply:
        """Answer a request; an exception becomes a reply with status 500."""
        try:
            return self._answer(request)
        except Exception:
            log.failure("the page could not be answered")
            return PageReply.from_value({"error": "defect"}, 500)


class PageServer(Service):
    """The page's server, which listens on a free port of 127.0.0.1."""

    def __init__(self, reactor: Any, answer: Answerer, port: int = 0) -> None:
        self.reactor, self.port = reactor, port
        self.factory = PageFactory(reactor, answer)
        self._listening: Any = None

    def startService(self) -> None:
        super().startService()
        self._listening = self.reactor.listenTCP(self.port, self.factory, interface="127.0.0.1")
        self.port = self._listening.getHost().port
        self.factory.own, self.factory.port = f"127.0.0.1:{self.port}".encode(), self.port

    def stopService(self) -> Any:
        super().stopService()
        for channel in tuple(self.factory.channels):
            channel.end()  # not cut: the last reply may not have arrived yet
        return self._listening.stopListening() if self._listening is not None else None
