"""A blocking WebSocket chat client that returns each stanza as it was received."""

from __future__ import annotations

import base64
import socket
from struct import unpack

from attrs import define, field

from svcserver.chat import stanza
from svcserver.players import frames
from svcserver.players.frames import split
from tests.support.processes import PATIENCE_S


def upgrade(more: str = "") -> bytes:
    return frames.upgrade(61000, more=more)


def masked(payload: bytes, opcode: int = 1) -> bytes:
    """Return a client frame with a mask that changes its payload bytes."""
    head, mask = frames.masked(payload, opcode)[: -len(payload) - 4], b"\1\2\3\4"
    return head + mask + bytes(item ^ mask[at % 4] for at, item in enumerate(payload))


@define(eq=False)
class Talker:
    """A player connected over a socket."""

    port: int
    account: str
    name: str
    resource: str = "V2:Word:WIN::0123456789abcdef0123456789abcdef"
    domain: str = "127.0.0.1:61000"
    more: str = ""  # headers of the upgrade request
    wire: socket.socket = field(init=False)
    head: bytes = b""
    closed: int | None = None
    _data: bytes = b""
    _frames: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.wire = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        self.wire.sendall(upgrade(self.more))
        while b"\r\n\r\n" not in self._data:
            self._data += self.wire.recv(4096)
        self.head, _, self._data = self._data.partition(b"\r\n\r\n")

    def send(self, text: str) -> None:
        self.wire.sendall(masked(text.encode()))

    def hear(self, word: str = "") -> str:
        """Return the next stanza that contains ``word``; skip earlier stanzas."""
        while True:
            while self._frames:
                replies = self._frames.pop(0)
                stanza.parse(replies)
                if word in replies:
                    return replies
            more = self.wire.recv(65_536)
            if not more:
                raise EOFError(word)
            result, self._data = split(self._data + more)
            for opcode, payload in result:
                if opcode == 1:
                    self._frames.append(payload.decode())
                elif opcode == 8:
                    self.closed = unpack("!H", payload[:2])[0]

    def try_token(self, token: str) -> str:
        """Log in with the token; return the server's answer."""
        self.send(f'<open xmlns="{stanza.FRAMING}" to="{self.domain}" version="1.0"/>')
        self.hear("PLAIN")
        proof = base64.b64encode(f"\0{self.account}\0{token}".encode()).decode()
        self.send(f'<auth xmlns="{stanza.SASL}" mechanism="PLAIN">{proof}</auth>')
        return self.hear("urn:ietf:params:xml:ns:xmpp-sasl")

    def log_in(self, token: str) -> Talker:
        replies = self.try_token(token)
        assert "<success" in replies, replies
        self.send(f'<open xmlns="{stanza.FRAMING}" to="{self.domain}" version="1.0"/>')
        self.hear("xmpp-bind")
        resource = f"<resource>{self.resource}</resource>"
        self.send(f'<iq type="set" id="b"><bind xmlns="{stanza.BIND}">{resource}</bind></iq>')
        self.hear("<jid>")
        return self

    def join(self, room: str) -> str:
        nick = f"{self.name}:{self.account}:{self.resource}"
        to = f"{room}@muc.{self.domain}/{nick}"
        self.send(f'<presence to="{to}"><x xmlns="{stanza.MUC}"/></presence>')
        while True:
            replies = self.hear("<presence")
            if 'code="110"' in replies or 'type="error"' in replies:
                return replies

    def show(self, status: str, alone: str) -> None:
        """Set the status and enter the empty room ``alone``; wait until both have happened."""
        self.send(f"<presence><show>{status}</show></presence>")
        assert 'code="110"' in self.join(alone)

    def say(self, room: str, text: str) -> None:
        self.send(
            f'<message type="groupchat" to="{room}@muc.{self.domain}" id="1">'
            f"<body>{stanza.text(text)}</body></message>"
        )

    def whisper(self, account: str, text: str) -> None:
        self.send(
            f'<message type="chat" to="{account}@{self.domain}" id="w">'
            f"<body>{text}</body></message>"
        )
