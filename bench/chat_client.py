"""A chat client for the load generator: the simulated players' client over asyncio."""

import asyncio
import re
import socket
from collections.abc import Callable, Coroutine
from typing import Any, cast

from attrs import frozen
from twisted.internet.defer import Deferred

from svcserver.chat import stanza
from svcserver.players.chat import ANSWER_S, ChatClient
from svcserver.players.frames import CLOSE, ChatReader, masked, upgrade

PATIENCE_S = ANSWER_S
_STANZA = re.compile(r"\A<(iq|presence|message)(?= (?!xmlns=))")
_ANSWERS = (b'code="110"', b"code='110'", b"<error")  # the presences that end a join


@frozen
class Place:
    """The port, path and domain of a server's chat."""

    port: int
    path: str
    domain: str


@frozen
class Login:
    """An account with its credentials."""

    account: str
    password: str
    name: str


class _Timer:
    """An asyncio timer with the interface of a Twisted delayed call."""

    def __init__(self, delay: float, call: Callable[..., None], *args: object) -> None:
        self._handle = asyncio.get_running_loop().call_later(delay, self._run, call, *args)
        self._over = False

    def _run(self, call: Callable[..., None], *args: object) -> None:
        self._over = True
        call(*args)

    def active(self) -> bool:
        return not self._over

    def cancel(self) -> None:
        self._over = True
        self._handle.cancel()


class _Clock:
    callLater = _Timer


class Chatter(asyncio.Protocol):
    """One connection to a chat server; its ``sink``, if set, receives the server's raw bytes."""

    def __init__(self, place: Place, login: Login, number: int) -> None:
        self.place, self.login = place, login
        self.chat = ChatClient(
            _Clock, login.account, login.name, place.domain, f"V2:bench:{number:04d}"
        )
        self.chat.error = ConnectionError
        self.sink: Callable[[bytes], None] | None = None
        self.left = asyncio.Event()
        self._reader = ChatReader(self.chat, self, _is_for_us)
        self.transport: asyncio.Transport | None = None

    @property
    def gone(self) -> bool:
        """Return whether the connection has ended."""
        return self.left.is_set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, why: Exception | None) -> None:
        self.left.set()
        self.chat.ended()

    def data_received(self, data: bytes) -> None:
        if self.sink is not None:
            self.sink(data)
            return
        self._reader.feed(data)

    def send(self, text: str) -> None:
        """Send a stanza, with the namespace that the game omits and other servers require."""
        assert self.transport is not None
        text = _STANZA.sub(r'<\1 xmlns="jabber:client"', text, count=1)
        self.transport.write(masked(text.encode()))

    def close(self) -> None:
        """Close the connection."""
        if self.transport is not None:
            self.transport.close()

    async def arrive(self, receive_buffer: int = 0) -> None:
        """Connect, log in and bind."""
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        loop, place = asyncio.get_running_loop(), self.place
        await loop.sock_connect(sock, ("127.0.0.1", place.port))
        await loop.create_connection(lambda: self, sock=sock)
        assert self.transport is not None
        self.transport.write(upgrade(place.port, place.path))
        await _run(self.chat.bind(self.login.password))

    async def join(self, room: str) -> None:
        """Join a room of the server."""
        assert await _run(self.chat.enter(room)), room

    async def answered(self, number: str) -> None:
        """Wait for the reply to the iq with this id, or until the server closes the connection."""
        sign, over, rest = f'id="{number}"'.encode(), asyncio.Event(), b""

        def look(data: bytes) -> None:
            nonlocal rest
            rest += data
            if sign in rest:
                over.set()
            rest = rest[-len(sign) :]

        self.sink = look
        waits = [asyncio.ensure_future(event.wait()) for event in (over, self.left)]
        await asyncio.wait(waits, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        assert over.is_set() or self.gone, number

    def send_room_line(self, room: str, body: str) -> None:
        """Send a line to the room."""
        self.send(self.line(room, body))

    def line(self, room: str, body: str) -> str:
        """Return the stanza of a line to the room."""
        return (
            f'<message xmlns="jabber:client" type="groupchat" '
            f'to="{room}@muc.{self.place.domain}" id="m1"><body>{body}</body></message>'
        )

    def leave(self) -> None:
        """Log off and close the connection."""
        if self.transport is not None and not self.gone:
            self.send(stanza.serialize(stanza.CLOSE))
            self.transport.write(masked(b"", CLOSE))
            self.transport.close()


def _is_for_us(payload: bytes) -> bool:
    return not payload.startswith(b"<presence") or any(mark in payload for mark in _ANSWERS)


async def _run(work: Coroutine[Any, Any, Any]) -> Any:
    return await Deferred.fromCoroutine(work).asFuture(asyncio.get_running_loop())
