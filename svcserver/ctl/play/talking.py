"""Everybody's chat through the whole evening: every line is counted where it must arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from attrs import define, field

from svcserver.ctl.play.broken import Broken
from svcserver.ctl.play.chatting import Chatter
from svcserver.ctl.play.crowd import gather
from svcserver.ctl.play.player import Player, pause
from svcserver.ctl.play.timings import Timings

LATE_S = 0.2  # a line that comes twice may take so much longer
LINE = "chat line, from saying to hearing"
LOGIN = "chat login"


@define(eq=False)
class Talk:
    """The chat sessions of all players, and what each of them must have heard."""

    reactor: Any
    timings: Timings
    tag: str  # in every line of this evening: others may talk too
    chatters: dict[str, Chatter] = field(factory=dict)  # by account
    said: int = 0
    whispers: int = 0
    _wanted: dict[str, Counter[tuple[str, str]]] = field(factory=dict)
    _spoken: dict[str, float] = field(factory=dict)  # by text

    async def log_in(self, players: Sequence[Player]) -> None:
        for one in players:
            self.chatters[one.account] = Chatter(self.reactor, one, self._heard)
            self._wanted[one.account] = Counter()
        await gather([self._log_in(self.chatters[one.account]) for one in players], 32)

    async def _log_in(self, chatter: Chatter) -> None:
        began = self.reactor.seconds()
        await chatter.log_in()
        self.timings.note(LOGIN, self.reactor.seconds() - began)

    async def enter(self, members: Sequence[Player], room: str) -> None:
        """All of them join; it returns once each is in."""
        await gather([self.chatters[one.account].enter(room) for one in members])

    def say(self, speaker: Player, members: Sequence[Player], room: str) -> None:
        """One line, which every member (the speaker too) must hear once."""
        text, mouth = self._line(f"hello from {speaker.name} <&>"), self.chatters[speaker.account]
        for one in members:
            self._wanted[one.account][f"{room}/{mouth.nick}", text] += 1
        mouth.say(room, text)

    def whisper(self, speaker: Player, listener: Player) -> None:
        """One line, which the listener alone must hear."""
        text, mouth = self._line("psst <&>"), self.chatters[speaker.account]
        self._wanted[listener.account][f"{speaker.account}/{mouth.resource}", text] += 1
        self.whispers += 1
        mouth.whisper(self.chatters[listener.account], text)

    async def settle(self) -> int:
        """Wait for what was said so far, then compare; the number of deliveries until now."""
        for account, chatter in self.chatters.items():
            wanted = self._wanted[account]
            await chatter.until(lambda c=chatter, w=wanted: w <= c.heard, "a line")  # type: ignore[misc]
        await pause(self.reactor, LATE_S)
        for account, chatter in self.chatters.items():
            self._compare(chatter, self._wanted[account])
        return sum(wanted.total() for wanted in self._wanted.values())

    async def close(self) -> None:
        """Everybody goes."""
        for one in self.chatters.values():
            await one.close()

    def _compare(self, chatter: Chatter, wanted: Counter[tuple[str, str]]) -> None:
        name = chatter.player.name
        if chatter.refused:
            raise Broken("chat", f"refused {chatter.refused} lines of {name}")
        heard = Counter({line: n for line, n in chatter.heard.items() if self.tag in line[1]})
        if heard != wanted:
            twice = sum((heard - wanted).values())
            lost = sum((wanted - heard).values())
            raise Broken("chat", f"{name} heard {twice} lines too many and {lost} too few")

    def _line(self, words: str) -> str:
        self.said += 1
        text = f"{words} {self.tag} {self.said}"
        self._spoken[text] = self.reactor.seconds()
        return text

    def _heard(self, text: str) -> None:
        began = self._spoken.get(text)
        if began is not None:
            self.timings.note(LINE, self.reactor.seconds() - began)
