"""A chat client as the game has one: XMPP over WebSocket, through the relay."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from attrs import define, field
from autobahn.twisted.websocket import WebSocketClientFactory, WebSocketClientProtocol
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import TCP4ClientEndpoint

from svcserver.ctl.play.broken import Broken
from svcserver.ctl.play.player import Player
from svcserver.kernel.secrets import hex_token

ANSWER_S = 15.0
MAX_FRAMES = 10_000  # heard and not yet asked for
OPEN = '<open xmlns="urn:ietf:params:xml:ns:xmpp-framing" to="{domain}" version="1.0"/>'
AUTH = '<auth xmlns="urn:ietf:params:xml:ns:xmpp-sasl" mechanism="PLAIN">{proof}</auth>'
BIND = (
    '<iq type="set" id="b1"><bind xmlns="urn:ietf:params:xml:ns:xmpp-bind">'
    "<resource>{resource}</resource></bind></iq>"
)
SESSION = '<iq type="set" id="s1"><session xmlns="urn:ietf:params:xml:ns:xmpp-session"/></iq>'
JOIN = '<presence to="{room}/{nick}"><x xmlns="http://jabber.org/protocol/muc"/></presence>'
SAY = '<message type="groupchat" to="{room}" id="{id}"><body>{text}</body></message>'
CLOSE = '<close xmlns="urn:ietf:params:xml:ns:xmpp-framing"/>'


class ChatProtocol(WebSocketClientProtocol):
    """Frames in a row, and whoever waits for the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[str] = []
        self.waiting: Deferred[None] | None = None
        self.ended = False

    def onOpen(self) -> None:
        """The upgrade went through."""
        transport: Any = self.transport
        transport.setTcpNoDelay(True)
        self._wake()

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        """One stanza."""
        if len(self.frames) < MAX_FRAMES:
            self.frames.append(payload.decode("utf-8", "replace"))
        self._wake()

    def onClose(self, wasClean: bool, code: int | None, reason: str | None) -> None:
        """It is over."""
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting is not None and not waiting.called:
            waiting.callback(None)


@define(eq=False)
class Chatter:
    """One player's chat session."""

    reactor: Any
    player: Player
    domain: str = "svc.local"
    resource: str = field(factory=lambda: f"V2:svc:WIN::{hex_token(32)}")
    _wire: Any = None

    async def log_in(self) -> None:
        """Connect and bind; raises Broken("chat", ...)."""
        url = urlsplit(self.player.wire.base)
        port = url.port or 80
        self.domain = f"127.0.0.1:{port}"
        factory = WebSocketClientFactory(
            f"ws://127.0.0.1:{port}//", protocols=["xmpp"], reactor=self.reactor
        )
        factory.protocol = ChatProtocol
        endpoint = TCP4ClientEndpoint(self.reactor, "127.0.0.1", port, timeout=10)
        self._wire = await endpoint.connect(factory)
        await self._until(lambda: self._wire.state == ChatProtocol.STATE_OPEN, "the upgrade")
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

    async def enter(self, room: str) -> None:
        """Join; our own presence comes last."""
        nick = f"{self.player.name}:{self.player.account}:{self.resource}"
        self._send(JOIN.format(room=f"{room}@muc.{self.domain}", nick=escape(nick)))
        said = await self.hear("<presence", also=('code="110"', 'type="error"'))
        if 'type="error"' in said:
            raise Broken("chat", f"{self.player.name} may not enter {room}")

    def say(self, room: str, text: str) -> None:
        """A line for everyone in the room."""
        room = f"{room}@muc.{self.domain}"
        self._send(SAY.format(room=room, id=hex_token(8), text=escape(text)))

    async def hear(self, word: str, *, also: Sequence[str] = ("",)) -> str:
        """The first unheard stanza with ``word`` and one of ``also``; it counts as heard."""
        found: list[str] = []

        def look() -> bool:
            for at, frame in enumerate(self._wire.frames):
                if word in frame and any(one in frame for one in also):
                    found.append(self._wire.frames.pop(at))
                    return True
            return False

        await self._until(look, word)
        return found[0]

    def count(self, word: str) -> int:
        """Unheard stanzas with ``word``."""
        return sum(word in frame for frame in self._wire.frames)

    async def close(self) -> None:
        """Say goodbye."""
        if self._wire is not None and not self._wire.ended:
            self._send(CLOSE)
            self._wire.dropConnection(abort=False)

    def _send(self, frame: str) -> None:
        self._wire.sendMessage(frame.encode())

    async def _until(self, true: Any, what: str) -> None:
        deadline = self.reactor.seconds() + ANSWER_S
        while not true():
            left = deadline - self.reactor.seconds()
            if self._wire.ended or left <= 0:
                seen = "closed" if self._wire.ended else "silent"
                raise Broken("chat", f"{seen} while {self.player.name} waited for {what}")
            self._wire.waiting = Deferred()
            timer = self.reactor.callLater(min(left, 1.0), self._wire._wake)
            try:
                await self._wire.waiting
            finally:
                if timer.active():
                    timer.cancel()


async def talk(reactor: Any, players: Sequence[Player], room: str, gather: Any) -> int:
    """Everybody enters, says one line, and hears every line once; how many were heard."""
    chatters = [Chatter(reactor, one) for one in players]
    try:
        await gather([one.log_in() for one in chatters])
        await gather([one.enter(room) for one in chatters])
        for one in chatters:
            one.say(room, f"hello from {one.player.name} <&>")
        for one in chatters:
            for other in chatters:
                await one.hear(f"hello from {other.player.name} &lt;&amp;&gt;")
            if extra := one.count("hello from"):
                raise Broken("chat", f"{one.player.name} heard {extra} lines twice")
    except Broken:
        raise
    except Exception as why:
        raise Broken("chat", f"the connection failed: {type(why).__name__}") from why
    finally:
        for one in chatters:
            await one.close()
    return len(chatters) ** 2
