"""The chat client of the players' library, on the simulated network."""

from __future__ import annotations

from typing import Any

from attrs import define
from twisted.internet.protocol import ClientFactory, Protocol, connectionDone
from twisted.python.failure import Failure

from simulation.client import RELAY
from simulation.process import Process
from svcserver.players.chat import ChatClient
from svcserver.players.frames import ChatReader, masked, upgrade

DOMAIN = f"127.0.0.1:{RELAY}"


class _Socket(Protocol):
    """The transport of a chat client."""

    def __init__(self, chat: Chat) -> None:
        self.chat = chat
        self._reader = ChatReader(chat, self)

    def connectionMade(self) -> None:
        self._write(upgrade(RELAY))

    def dataReceived(self, data: bytes) -> None:
        self._reader.feed(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.chat.ended()

    def send(self, text: str) -> None:
        self._write(masked(text.encode()))

    def close(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()

    def _write(self, data: bytes) -> None:
        transport: Any = self.transport
        transport.write(data)


class _Factory(ClientFactory):
    noisy = False

    def __init__(self, chat: Chat) -> None:
        self.chat = chat

    def buildProtocol(self, addr: Any) -> _Socket:
        return _Socket(self.chat)

    def clientConnectionFailed(self, connector: Any, reason: Failure) -> None:
        self.chat.ended()


@define(eq=False)
class Chat(ChatClient):
    """A chat session of a simulated player."""

    hasty: bool = False  # something was sent before the log-in finished, which may end the session

    def connect(self, process: Process) -> None:
        """Start a connection from the player's PC to the player's relay."""
        process.connectTCP("127.0.0.1", RELAY, _Factory(self), timeout=10)

    async def enter(self, room: str) -> bool:
        """Join a room; return whether the server allowed it."""
        self.hasty = self.hasty or not self.bound
        return await super().enter(room)
