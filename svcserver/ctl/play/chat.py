"""The chat of all simulated players, which checks who receives each line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from attrs import define, field
from twisted.internet.task import deferLater

from svcserver.ctl.play.crowd import gather
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.story import PlayFailed
from svcserver.ctl.play.timings import Timings
from svcserver.players.chat import ChatClient, Line
from svcserver.players.websocket import connect

LATE_S = 0.2  # how much later a duplicate of a line may arrive
LINE = "chat line, from sending to receiving"
LOGIN = "chat login"


def client_of(reactor: Any, player: Player, on_line: Callable[[Line], None]) -> ChatClient:
    """Create the player's chat client, which raises PlayFailed on errors."""
    port = urlsplit(player.wire.base).port or 80
    return ChatClient(
        reactor,
        player.account,
        player.name,
        f"127.0.0.1:{port}",
        on_line=on_line,
        error=partial(PlayFailed, "chat"),
    )


async def log_in(client: ChatClient, player: Player) -> None:
    """Connect through the player's relay and log in to the chat."""
    await connect(client.clock, client, urlsplit(player.wire.base).port or 80)
    await client.log_in(player.token)


async def enter(client: ChatClient, room: str) -> None:
    """Join a chat room; raises PlayFailed if the server refuses."""
    if not await client.enter(room):
        raise PlayFailed("chat", f"{client.name} may not enter {room}")


@define(eq=False)
class Chat:
    """The chat sessions of all players, and the lines that each player must have received."""

    reactor: Any
    timings: Timings
    tag: str  # part of every line of this session, because others may chat too
    clients: dict[str, ChatClient] = field(factory=dict)  # by account
    lines_sent: int = 0
    whispers: int = 0
    _wanted: dict[str, Counter[Line]] = field(factory=dict)
    _heard: dict[str, Counter[Line]] = field(factory=dict)
    _spoken: dict[str, float] = field(factory=dict)  # by text

    async def log_in(self, players: Sequence[Player]) -> None:
        await gather([self._log_in(player, self.add(player)) for player in players], 32)

    def add(self, player: Player) -> ChatClient:
        """Create the player's chat client, which counts the lines it receives."""
        received = self._heard[player.account] = Counter()
        self._wanted[player.account] = Counter()
        client = client_of(self.reactor, player, partial(self._hear, received))
        self.clients[player.account] = client
        return client

    async def _log_in(self, player: Player, client: ChatClient) -> None:
        began = self.reactor.seconds()
        await log_in(client, player)
        self.timings.note(LOGIN, self.reactor.seconds() - began)

    async def enter(self, members: Sequence[Player], room: str) -> None:
        """Let the members join a chat room."""
        await gather([enter(self.clients[member.account], room) for member in members])

    def say(self, speaker: Player, members: Sequence[Player], room: str) -> None:
        """Send a line that every member, including the speaker, must receive exactly once."""
        text, mouth = self._line(f"hello from {speaker.name} <&>"), self.clients[speaker.account]
        for member in members:
            self._wanted[member.account][Line(False, room, mouth.nick, text)] += 1
        mouth.say(room, text)

    def whisper(self, speaker: Player, listener: Player) -> None:
        """Send a line that only the listener must receive."""
        text, mouth = self._line("psst <&>"), self.clients[speaker.account]
        self._wanted[listener.account][Line(True, speaker.account, mouth.resource, text)] += 1
        self.whispers += 1
        mouth.whisper(listener.account, text)

    async def settle(self) -> int:
        """Wait for all lines sent so far and compare them; return the number of deliveries."""
        for account, client in self.clients.items():
            wanted, received = self._wanted[account], self._heard[account]
            if not wanted <= received:
                await client.hear("a line", partial(_all_heard, wanted, received))
        await deferLater(self.reactor, LATE_S)
        for client in self.clients.values():
            self._compare(client)
        return sum(wanted.total() for wanted in self._wanted.values())

    def close(self) -> None:
        for client in self.clients.values():
            client.close()

    def _compare(self, client: ChatClient) -> None:
        if client.refused:
            raise PlayFailed("chat", f"refused {client.refused} lines of {client.name}")
        received, wanted = self._heard[client.account], self._wanted[client.account]
        if received != wanted:
            too_many = sum((received - wanted).values())
            too_few = sum((wanted - received).values())
            raise PlayFailed(
                "chat", f"{client.name} received {too_many} lines too many and {too_few} too few"
            )

    def _line(self, words: str) -> str:
        self.lines_sent += 1
        text = f"{words} {self.tag} {self.lines_sent}"
        self._spoken[text] = self.reactor.seconds()
        return text

    def _hear(self, received: Counter[Line], line: Line) -> None:
        if self.tag in line.text:
            received[line] += 1
        began = self._spoken.get(line.text)
        if began is not None:
            self.timings.note(LINE, self.reactor.seconds() - began)


def _all_heard(wanted: Counter[Line], received: Counter[Line], _: Any) -> bool:
    return wanted <= received
