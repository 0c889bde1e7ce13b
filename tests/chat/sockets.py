"""A blocking WebSocket chat client that returns each stanza as it was received."""

from __future__ import annotations

import socket
from collections.abc import Coroutine
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from svcserver.chat import stanza
from svcserver.players import frames
from svcserver.players.chat import ChatClient
from svcserver.players.frames import TEXT, split
from svcserver.players.http import NoAnswer
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
    client: ChatClient = field(init=False)
    head: bytes = b""
    _data: bytes = b""
    _frames: list[str] = field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.wire = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        self.wire.sendall(upgrade(self.more))
        while b"\r\n\r\n" not in self._data:
            self._data += self.wire.recv(4096)
        self.head, _, self._data = self._data.partition(b"\r\n\r\n")
        self.client = ChatClient(Clock(), self.account, self.name, self.domain, self.resource)
        self.client.opened(self)

    def send(self, text: str) -> None:
        self.wire.sendall(masked(text.encode()))

    def close(self) -> None:
        """Keep the connection of a refused client: the test closes it."""

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
            self._frames += [payload.decode() for opcode, payload in result if opcode == TEXT]

    def _run(self, act: Coroutine[Any, Any, Any]) -> str:
        """Run an act of the chat client, and return the last stanza that it received."""
        pending, reply = Deferred.fromCoroutine(act), ""
        while not pending.called:
            reply = self.hear()
            self.client.arrived(reply)
        pending.addErrback(lambda failure: failure.trap(NoAnswer))  # the reply gives the reason
        return reply

    def try_token(self, token: str) -> str:
        """Log in with the token; return the refusal, or the answer to the bind."""
        return self._run(self.client.bind(token))

    def log_in(self, token: str) -> Talker:
        reply = self.try_token(token)
        assert "<jid>" in reply, reply
        return self

    def join(self, room: str) -> str:
        return self._run(self.client.enter(room))

    def show(self, status: str, alone: str) -> None:
        """Set the status and enter the empty room ``alone``; wait until both have happened."""
        self.send(f"<presence><show>{status}</show></presence>")
        assert 'code="110"' in self.join(alone)

    def say(self, room: str, text: str) -> None:
        self.client.send_to_room(room, text)

    def whisper(self, account: str, text: str) -> None:
        self.client.whisper(account, text)
