"""A chat client like the game's: XMPP over WebSocket, through the relay."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape, unescape

from attrs import define, field
from autobahn.twisted.websocket import WebSocketClientFactory, WebSocketClientProtocol
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint

from svcserver.ctl.play.failed import PlayFailed
from svcserver.ctl.play.player import Player
from svcserver.kernel.secrets import hex_token
from svcserver.players.gameclient import (
    AUTH,
    BIND,
    BODY,
    CLOSE,
    FROM,
    ID,
    JOIN,
    OPEN,
    PONG,
    SAY,
    SESSION,
)

ANSWER_S = 30.0
MAX_FRAMES = 10_000  # received and not yet read by ``hear``
MAX_HEARD = 1_000_000  # different lines


class ChatProtocol(WebSocketClientProtocol):
    """Counts lines, queues other frames, and wakes the waiting client."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[str] = []
        self.heard: Counter[tuple[str, str]] = Counter()  # from whom; text
        self.refused = 0
        self.listener: Callable[[str], None] = lambda text: None
        self.waiting: Deferred[None] | None = None
        self.ended = False

    def onOpen(self) -> None:
        transport: Any = self.transport
        transport.setTcpNoDelay(True)
        self._wake()

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        frame = payload.decode("utf-8", "replace")
        if frame.startswith("<message"):
            self._line(frame)
        elif frame.startswith("<iq") and "urn:xmpp:ping" in frame:
            self.sendMessage(PONG.format(id=_found(ID, frame)).encode())
        elif len(self.frames) < MAX_FRAMES:
            self.frames.append(frame)
        self._wake()

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:
        self.ended = True
        self._wake()

    def _line(self, frame: str) -> None:
        if 'type="error"' in frame:
            self.refused += 1
        elif len(self.heard) < MAX_HEARD:
            text = unescape(_found(BODY, frame))
            self.heard[_who(unescape(_found(FROM, frame))), text] += 1
            self.listener(text)

    def _wake(self) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None and not waiting.called:
            waiting.callback(None)


@define(eq=False)
class ChatClient:
    """The chat session of one simulated player, through gateway and relay."""

    reactor: Any
    player: Player
    listener: Callable[[str], None] = lambda text: None
    domain: str = "svc.local"
    resource: str = field(factory=lambda: f"V2:svc:WIN::{hex_token(32)}")
    _wire: Any = None

    @property
    def nick(self) -> str:
        """The nickname as the game makes it."""
        return f"{self.player.name}:{self.player.account}:{self.resource}"

    async def log_in(self) -> None:
        """Connect and bind; raises PlayFailed("chat", ...)."""
        url = urlsplit(self.player.wire.base)
        port = url.port or 80
        self.domain = f"127.0.0.1:{port}"
        factory = WebSocketClientFactory(
            f"ws://127.0.0.1:{port}//", protocols=["xmpp"], reactor=self.reactor
        )
        factory.protocol = ChatProtocol
        factory.setProtocolOptions(openHandshakeTimeout=ANSWER_S)  # a restart may come between
        endpoint = TCP4ClientEndpoint(self.reactor, "127.0.0.1", port, timeout=10)
        try:
            self._wire = await endpoint.connect(factory)
        except Exception as why:
            raise PlayFailed("chat", f"the connection failed: {type(why).__name__}") from why
        self._wire.listener = self.listener
        await self.until(lambda: self._wire.state == ChatProtocol.STATE_OPEN, "the upgrade")
        self._send(OPEN.format(domain=self.domain))
        await self.hear("PLAIN")
        proof = f"\0{self.player.account}\0{self.player.token}".encode()
        self._send(AUTH.format(proof=base64.b64encode(proof).decode()))
        await self.hear("<success")
        self._send(OPEN.format(domain=self.domain))
        await self.hear("xmpp-bind")
        self._send(BIND.format(resource=self.resource))
        await self.hear("<jid>")
        self._send(SESSION)
        await self.hear('id="s1"')

    def address_of(self, room: str) -> str:
        return f"{room}@muc.{self.domain}"

    async def enter(self, room: str) -> None:
        """Join; our own presence comes last."""
        self._wire.frames.clear()
        address = self.address_of(room)
        self._send(JOIN.format(room=address, nick=escape(self.nick)))
        said = await self.hear(f'from="{address}/', also=('code="110"', 'type="error"'))
        if 'type="error"' in said:
            raise PlayFailed("chat", f"{self.player.name} may not enter {room}")

    def say(self, room: str, text: str) -> None:
        self._tell("groupchat", self.address_of(room), text)

    def whisper(self, other: ChatClient, text: str) -> None:
        self._tell("chat", f"{other.player.account}@{self.domain}", text)

    def _tell(self, kind: str, to: str, text: str) -> None:
        self._send(SAY.format(kind=kind, to=to, id=hex_token(8), text=escape(text)))

    async def hear(self, word: str, *, also: Sequence[str] = ("",)) -> str:
        """Wait for a frame with ``word`` and one of ``also``, and take it from the queue."""
        found: list[str] = []

        def look() -> bool:
            for at, frame in enumerate(self._wire.frames):
                if word in frame and any(one in frame for one in also):
                    found.append(self._wire.frames.pop(at))
                    return True
            return False

        await self.until(look, word)
        return found[0]

    @property
    def heard(self) -> Counter[tuple[str, str]]:
        """The number of each received line, by sender and text."""
        heard: Counter[tuple[str, str]] = self._wire.heard
        return heard

    @property
    def refused(self) -> int:
        """The number of our lines that the server refused."""
        return int(self._wire.refused)

    async def close(self) -> None:
        if self._wire is not None and not self._wire.ended:
            self._send(CLOSE)
            self._wire.dropConnection(abort=False)

    def _send(self, frame: str) -> None:
        if self._wire.ended or self._wire.state != ChatProtocol.STATE_OPEN:
            raise PlayFailed("chat", f"the server closed {self.player.name}'s connection")
        self._wire.sendMessage(frame.encode())

    async def until(self, true: Callable[[], bool], what: str) -> None:
        """Wait until ``true()``; raises PlayFailed on disconnect or after ``ANSWER_S``."""
        deadline = self.reactor.seconds() + ANSWER_S
        while not true():
            left = deadline - self.reactor.seconds()
            if self._wire.ended or left <= 0:
                seen = "closed" if self._wire.ended else "silent"
                raise PlayFailed("chat", f"{seen} while {self.player.name} waited for {what}")
            self._wire.waiting = Deferred()
            timer = self.reactor.callLater(min(left, 1.0), self._wire._wake)
            try:
                await self._wire.waiting
            finally:
                if timer.active():
                    timer.cancel()


def _found(pattern: re.Pattern[str], frame: str) -> str:
    match = pattern.search(frame)
    return match[1] if match is not None else ""


def _who(address: str) -> str:
    """``local/resource`` of an address, without the domain, which differs for each relay."""
    local, _, rest = address.partition("@")
    return f"{local}/{rest.partition('/')[2]}"
