"""The game's chat client, written anew: XMPP over WebSocket, with its own framing."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape, unescape

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ClientFactory, Protocol
from twisted.python.failure import Failure

from simulation.client import RELAY, NoAnswer
from simulation.process import Process
from svcserver.players.gameclient import AUTH, BIND, BODY, FROM, ID, JOIN, LEAVE, OPEN, SAY, SESSION

ANSWER_S = 30.0
REMEMBERED = 50  # lines that may still be refused
DOMAIN = f"127.0.0.1:{RELAY}"
UPGRADE = (
    "GET // HTTP/1.1\r\nHost: 127.0.0.1:61000\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Protocol: xmpp\r\n\r\n"
)
_MASK = b"\0\0\0\0"  # as good as any: nobody listens


def frame(text: str) -> bytes:
    """``text`` as a WebSocket frame, masked as a client's must be."""
    data = text.encode()
    if len(data) < 126:
        return bytes((0x81, 0x80 | len(data))) + _MASK + data
    return b"\x81\xfe" + len(data).to_bytes(2, "big") + _MASK + data


class _Socket(Protocol):
    """Upgrades, then takes frames apart."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self._data = b""
        self._open = False

    def connectionMade(self) -> None:
        transport: Any = self.transport
        transport.write(UPGRADE.encode())

    def dataReceived(self, data: bytes) -> None:
        self._data += data
        if not self._open:
            head, mark, rest = self._data.partition(b"\r\n\r\n")
            if not mark:
                return
            if b" 101 " not in head.split(b"\r\n")[0]:
                self.chat.ended()
                self.close()
                return
            self._open, self._data = True, rest
            self.chat.arrived("(open)")
        while (found := self._frame()) is not None:
            self._take(*found)

    def _frame(self) -> tuple[int, bytes] | None:
        data = self._data
        if len(data) < 2:
            return None
        size, at = data[1] & 0x7F, 2
        if size == 126:
            size, at = int.from_bytes(data[2:4], "big"), 4
        elif size == 127:
            size, at = int.from_bytes(data[2:10], "big"), 10
        if len(data) < at + size:
            return None
        self._data = data[at + size :]
        return data[0] & 0x0F, data[at : at + size]

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == 1:
            self.chat.arrived(payload.decode())
        elif kind == 8:
            self.chat.ended()
            self.close()

    def connectionLost(self, reason: Failure = Failure(NoAnswer())) -> None:  # noqa: B008
        self.chat.ended()

    def close(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()


class _Factory(ClientFactory):
    noisy = False

    def __init__(self, chat: Chat) -> None:
        self.chat = chat

    def buildProtocol(self, addr: Any) -> _Socket:
        socket = self.chat.socket = _Socket(self.chat)
        return socket

    def clientConnectionFailed(self, connector: Any, reason: Failure) -> None:
        self.chat.ended()


@define(eq=False)
class Chat:
    """One chat session. ``line(kind, room or sender, sender, text)`` is told of every line."""

    process: Process
    account: str
    name: str
    resource: str
    line: Callable[[str, str, str, str], None]
    over: Callable[[], None] = lambda: None
    put_out: Callable[[str], None] = lambda room: None  # of a room that we may not be in any more
    unsaid: Callable[[str], None] = lambda text: None  # told of a line that was refused
    socket: _Socket | None = None
    alive: bool = True
    bound: bool = False  # the log-in is over
    hasty: bool = False  # something was sent before it was, which may end the session
    rooms: list[str] = field(factory=list)
    refused: int = 0
    _frames: list[str] = field(factory=list, init=False)
    _waiting: list[tuple[tuple[str, ...], Deferred[str]]] = field(factory=list, init=False)
    _ids: int = field(default=0, init=False)
    _lately: dict[str, str] = field(
        factory=dict, init=False
    )  # id -> the line that was sent with it

    @property
    def nick(self) -> str:
        """The nickname as the game makes it."""
        return f"{self.name}:{self.account}:{self.resource}"

    async def log_in(self, token: str) -> None:
        """Connect and bind; raises NoAnswer."""
        self.process.connectTCP("127.0.0.1", RELAY, _Factory(self), timeout=10)
        await self._hear("(open)")
        proof = base64.b64encode(f"\0{self.account}\0{token}".encode()).decode()
        opening = OPEN.format(domain=DOMAIN)
        for sent, wanted in (
            (opening, "PLAIN"),
            (AUTH.format(proof=proof), "<success"),
            (opening, "xmpp-bind"),
            (BIND.format(resource=self.resource), "<jid>"),
            (SESSION, 'id="s1"'),
        ):
            self.send(sent)
            await self._hear(wanted)
        self.bound = True

    async def enter(self, room: str) -> bool:
        """Join a room; whether it was allowed."""
        self.hasty = self.hasty or not self.bound
        where = f"{room}@muc.{DOMAIN}"
        self.send(JOIN.format(room=where, nick=escape(self.nick)))
        said = await self._hear(f'from="{where}/', 'code="110"', 'type="error"')
        if 'type="error"' in said:
            return False
        if room not in self.rooms:
            self.rooms.append(room)
        return True

    def leave(self, room: str) -> None:
        if room in self.rooms:
            self.rooms.remove(room)
        where = f"{room}@muc.{DOMAIN}"
        self.send(LEAVE.format(room=where, nick=escape(self.nick)))

    def say(self, room: str, text: str) -> None:
        """Send a line to a room; raises NoAnswer."""
        self._tell("groupchat", f"{room}@muc.{DOMAIN}", text)

    def whisper(self, account: str, text: str) -> None:
        """Send a line to one player; raises NoAnswer."""
        self._tell("chat", f"{account}@{DOMAIN}", text)

    def _tell(self, kind: str, to: str, text: str) -> None:
        self._ids += 1
        number = f"m{self._ids}"
        self._lately[number] = text
        self._lately.pop(f"m{self._ids - REMEMBERED}", None)
        self.send(SAY.format(kind=kind, to=to, id=number, text=escape(text)))

    def send(self, text: str) -> None:
        """Send a stanza; raises NoAnswer once the chat is closed."""
        if not self.alive or self.socket is None or self.socket.transport is None:
            raise NoAnswer("the chat is closed")
        self.socket.transport.write(frame(text))

    def arrived(self, text: str) -> None:
        """Take a stanza of the server: a line, a ping, or what somebody waits for."""
        if text.startswith("<message"):
            self._line(text)
        elif text.startswith("<iq") and "urn:xmpp:ping" in text:
            found = ID.search(text)
            self.send(f'<iq type="result" id="{found[1] if found else ""}"/>')
        elif text.startswith("<presence") and 'type="unavailable"' in text:
            self._put_out(text)
        else:  # acts of one player overlap: each takes what it waits for
            for one in self._waiting:
                if self._fits(text, one[0]):
                    self._waiting.remove(one)
                    one[1].callback(text)
                    return

    def _line(self, text: str) -> None:
        if 'type="error"' in text:
            self.refused += 1
            found = ID.search(text)
            if found and found[1] in self._lately:
                self.unsaid(self._lately[found[1]])
            return
        sender, body = FROM.search(text), BODY.search(text)
        if sender is None or body is None:
            return
        local, _, rest = unescape(sender[1]).partition("@")
        kind = "room" if rest.startswith("muc.") else "whisper"
        who = rest.partition("/")[2] if kind == "room" else local
        self.line(kind, local, who, unescape(body[1]))

    def _put_out(self, text: str) -> None:
        sender = FROM.search(text)
        room, _, nick = unescape(sender[1]).partition("/") if sender is not None else ("", "", "")
        local = room.partition("@")[0]
        if nick == self.nick and local in self.rooms:
            self.rooms.remove(local)
            self.put_out(local)

    @staticmethod
    def _fits(text: str, words: tuple[str, ...]) -> bool:
        first, *others = words
        return first in text and (not others or any(one in text for one in others))

    async def _hear(self, *words: str) -> str:
        if not self.alive:
            raise NoAnswer("the chat is closed")
        done: Deferred[str] = Deferred()
        self._waiting.append((words, done))
        timer = self.process.callLater(ANSWER_S, self.ended)
        try:
            return await done
        finally:
            if timer.active():
                timer.cancel()

    def ended(self) -> None:
        """The session has ended, by a close or by silence; whoever waits fails."""
        if not self.alive:
            return
        self.alive = False
        self.rooms.clear()
        self.over()
        waiting, self._waiting = self._waiting, []
        if self.socket is not None and self.socket.connected:
            self.socket.close()
        for _, done in waiting:
            done.errback(NoAnswer("the chat ended"))
