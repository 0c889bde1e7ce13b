"""All players' chat; every line is counted at each player who must receive it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from attrs import define, field
from twisted.internet.task import deferLater

from svcserver.ctl.play.chat_client import ChatClient
from svcserver.ctl.play.crowd import gather
from svcserver.ctl.play.failed import PlayFailed
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.timings import Timings

LATE_S = 0.2  # how much later a duplicate of a line may arrive
LINE = "chat line, from saying to hearing"
LOGIN = "chat login"


@define(eq=False)
class Chat:
    """The chat sessions of all players, and the lines each must have received."""

    reactor: Any
    timings: Timings
    tag: str  # in every line of this evening: others may chat too
    clients: dict[str, ChatClient] = field(factory=dict)  # by account
    said: int = 0
    whispers: int = 0
    _wanted: dict[str, Counter[tuple[str, str]]] = field(factory=dict)
    _spoken: dict[str, float] = field(factory=dict)  # by text

    async def log_in(self, players: Sequence[Player]) -> None:
        for one in players:
            self.clients[one.account] = ChatClient(self.reactor, one, self._heard)
            self._wanted[one.account] = Counter()
        await gather([self._log_in(self.clients[one.account]) for one in players], 32)

    async def _log_in(self, client: ChatClient) -> None:
        began = self.reactor.seconds()
        await client.log_in()
        self.timings.note(LOGIN, self.reactor.seconds() - began)

    async def enter(self, members: Sequence[Player], room: str) -> None:
        """Let the members join a room."""
        await gather([self.clients[one.account].enter(room) for one in members])

    def say(self, speaker: Player, members: Sequence[Player], room: str) -> None:
        """Send a line, which every member (the speaker, too) must receive once."""
        text, mouth = self._line(f"hello from {speaker.name} <&>"), self.clients[speaker.account]
        for one in members:
            self._wanted[one.account][f"{room}/{mouth.nick}", text] += 1
        mouth.say(room, text)

    def whisper(self, speaker: Player, listener: Player) -> None:
        """Send a line that only the listener must receive."""
        text, mouth = self._line("psst <&>"), self.clients[speaker.account]
        self._wanted[listener.account][f"{speaker.account}/{mouth.resource}", text] += 1
        self.whispers += 1
        mouth.whisper(self.clients[listener.account], text)

    async def settle(self) -> int:
        """Wait for all lines sent so far, then compare; returns the number of deliveries."""
        for account, client in self.clients.items():
            wanted = self._wanted[account]
            await client.until(partial(_has_heard, client, wanted), "a line")
        await deferLater(self.reactor, LATE_S)
        for account, client in self.clients.items():
            self._compare(client, self._wanted[account])
        return sum(wanted.total() for wanted in self._wanted.values())

    async def close(self) -> None:
        for one in self.clients.values():
            await one.close()

    def _compare(self, client: ChatClient, wanted: Counter[tuple[str, str]]) -> None:
        name = client.player.name
        if client.refused:
            raise PlayFailed("chat", f"refused {client.refused} lines of {name}")
        heard = Counter({line: n for line, n in client.heard.items() if self.tag in line[1]})
        if heard != wanted:
            twice = sum((heard - wanted).values())
            lost = sum((wanted - heard).values())
            raise PlayFailed("chat", f"{name} heard {twice} lines too many and {lost} too few")

    def _line(self, words: str) -> str:
        self.said += 1
        text = f"{words} {self.tag} {self.said}"
        self._spoken[text] = self.reactor.seconds()
        return text

    def _heard(self, text: str) -> None:
        began = self._spoken.get(text)
        if began is not None:
            self.timings.note(LINE, self.reactor.seconds() - began)


def _has_heard(client: ChatClient, wanted: Counter[tuple[str, str]]) -> bool:
    return wanted <= client.heard
