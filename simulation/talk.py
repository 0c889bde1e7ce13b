"""Chat as its players heard it: one order, each line once, and none lost without a word."""

from __future__ import annotations

from collections.abc import Callable, Collection
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from attrs import define, field

from simulation.outcomes import Violations

ECHO_S = 30.0  # in which one's own line comes back
THERE_S = 5.0  # after which everybody knows of a session
LATE_S = 300.0  # in which it comes back, or is refused, whatever is broken


@define(eq=False)
class Listening:
    """One chat session in one room: what it heard, and from when on."""

    since: float
    lines: list[str] = field(factory=list)
    until: float | None = None


@define(eq=False)
class ChatHistory:
    """Chat: one order for all, each line once, and what the speaker heard all others hear."""

    wrong: Violations
    rooms: dict[str, dict[str, list[Listening]]] = field(factory=dict)  # room -> listener
    said: dict[str, float] = field(factory=dict)  # line -> when it was sent
    reached: dict[str, float] = field(factory=dict)  # line -> when anybody first heard it
    echoed: dict[str, set[str]] = field(factory=dict)  # room -> lines their speaker heard
    whispers: dict[str, int] = field(factory=dict)
    owed: dict[str, tuple[str, str]] = field(factory=dict)  # line -> room and who said it
    refused: set[str] = field(factory=set)  # lines whose speaker was told that nobody hears them
    whispered_to: dict[str, tuple[str, str]] = field(factory=dict)  # to whom, and who whispers
    count: int = 0
    spoken: int = 0  # lines and whispers
    gaps: list[tuple[float, float]] = field(factory=list)  # when metagames were apart

    def gap(self, since: float, until: float, margin_s: float = 30.0) -> None:
        """Between these times a line may reach some only; they notice it within the margin."""
        self.gaps.append((since - margin_s, until + margin_s))

    def entered(self, room: str, who: str, now: float) -> None:
        """From now on the session is owed each line of the room; an earlier one of it is over."""
        self.left(room, who, now)
        self.rooms.setdefault(room, {}).setdefault(who, []).append(Listening(now))

    def left(self, room: str, who: str, now: float) -> None:
        """The player is out of the room: lines from now on need not be heard."""
        for one in self.rooms.get(room, {}).get(who, [])[-1:]:
            if one.until is None:
                one.until = now
        for line in [line for line, owed in self.owed.items() if owed == (room, who)]:
            self._settled(line)
        for line in [line for line, two in self.whispered_to.items() if who in two]:
            del self.whispered_to[line]

    def utters(self, text: str, now: float) -> str:
        """Something is said now: the text with a number of its own in front of ``of``."""
        line = text.replace("#", str(self.spoken), 1)
        self.spoken += 1
        self.said[line] = now
        return line

    def spoke(self, room: str, who: str, line: str) -> None:
        """A line was sent into a room that its speaker is in: it must come back."""
        self.owed[line] = room, who

    def owes(self, line: str, to: str, who: str) -> None:
        """``who`` has whispered a line to a session that is there and stays: it must be heard."""
        self.whispered_to[line] = to, who

    def is_there(self, who: str, now: float) -> bool:
        """Whether the session has surely been told to all processes: it is in a room for long."""
        return any(
            one.until is None and one.since < now - THERE_S
            for listeners in self.rooms.values()
            for one in listeners.get(who, ())[-1:]
        )

    def look_at_whispers(self, now: float, untroubled: Callable[[float, str], bool]) -> None:
        """Note the whispers that were not heard in time, where nothing was broken meanwhile."""
        for line, (to, who) in list(self.whispered_to.items()):
            said = self.said[line]
            if now - said > ECHO_S:
                del self.whispered_to[line]
                if untroubled(said, to) and untroubled(said, who):
                    self.wrong.add("a whisper is heard", f"{to} never heard {line!r} of {who}")

    def look(self, now: float, untroubled: Callable[[float, str], bool]) -> None:
        """Note the lines that have not come back in time, where nothing was broken meanwhile.

        Where something was it may be late, or refused; it must not be lost without a word.
        """
        for line, (room, who) in list(self.owed.items()):
            if now - self.said[line] <= ECHO_S:
                continue
            refused = line in self.refused
            if untroubled(self.said[line], who) or (now - self.said[line] > LATE_S and not refused):
                self.wrong.add("a line comes back", f"{who} in {room} never heard {line!r}")
            elif not refused:
                continue
            self._settled(line)

    def refuses(self, line: str) -> None:
        """Its speaker is told that nobody hears it."""
        self.whispered_to.pop(line, None)
        if line in self.owed:
            self.refused.add(line)

    def _settled(self, line: str) -> None:
        self.owed.pop(line, None)
        self.refused.discard(line)

    def heard(self, room: str, who: str, line: str, own: bool, now: float) -> None:
        """Somebody in a room has read a line: it must have been said, and be new to them."""
        self.count += 1
        if own:
            self._settled(line)
        self.reached.setdefault(line, now)
        if line not in self.said:
            self.wrong.add("chat tells what was said", f"nobody said {line!r}")
        spans = self.rooms.get(room, {}).get(who)
        if not spans:
            return
        if any(line in span.lines for span in spans[-1:]):
            self.wrong.add("each line once", f"{who} heard {line!r} twice")
        spans[-1].lines.append(line)
        if own:
            self.echoed.setdefault(room, set()).add(line)

    def whispered(self, line: str, who: str) -> None:
        """Somebody has read a whisper: it must have been said, and be new to them."""
        self.whispered_to.pop(line, None)
        self.whispers[f"{who} {line}"] = self.whispers.get(f"{who} {line}", 0) + 1
        if line not in self.said:
            self.wrong.add("chat tells what was said", f"nobody whispered {line!r}")
        elif self.whispers[f"{who} {line}"] > 1:
            self.wrong.add("each line once", f"{who} heard the whisper {line!r} twice")

    def settle(self, now: float, margin_s: float = 20.0) -> None:
        """Compare all that was heard so far, and forget it.

        A line reaches the room some time between its sending and its first hearing: late, where
        the speaker's packets were lost. Who was there all that time and ``margin_s`` longer must
        have heard it.
        """
        self.look(now + LATE_S, lambda _, __: False)
        self._compare(self.said.keys(), now, margin_s)
        self.rooms = {
            room: kept
            for room, listeners in self.rooms.items()
            if (
                kept := {
                    who: [Listening(now)]
                    for who, every in listeners.items()
                    if every and every[-1].until is None
                }
            )
        }
        self.reached.clear()
        self.echoed.clear()
        self.whispers.clear()

    def forget(self, before: float, now: float) -> None:
        """Compare what was said before then, and forget it: a month of it would fill the memory."""
        over = {line for line, at in self.said.items() if at < before and line not in self.owed}
        self._compare(over, now)
        for room, listeners in self.rooms.items():
            for every in listeners.values():
                for one in every:
                    one.lines = [line for line in one.lines if line not in over]
                every[:-1] = [one for one in every[:-1] if (one.until or now) >= before]
            gone = [who for who, (*_, last) in listeners.items() if (last.until or now) < before]
            for who in gone:
                del listeners[who]
            self.echoed[room] = self.echoed.get(room, set()) - over
        for line in over:
            del self.said[line]
            self.reached.pop(line, None)
        self.whispers = {
            key: count for key, count in self.whispers.items() if key.partition(" ")[2] not in over
        }
        self.gaps = [one for one in self.gaps if one[1] >= before]
        self.rooms = {room: one for room, one in self.rooms.items() if one}

    def _compare(self, lines: Collection[str], now: float, margin_s: float = 20.0) -> None:
        """Whether there is one order, and all have heard those of these lines that they must."""
        for room, listeners in self.rooms.items():
            spans = [(who, one) for who, every in listeners.items() for one in every]
            self._order(room, [one.lines for _, one in spans])
            for line in sorted(self.echoed.get(room, set()).intersection(lines)):
                said, reached = self.said[line], self.reached[line]
                if any(since <= reached and said <= until for since, until in self.gaps):
                    continue
                for who, one in spans:
                    there = one.since <= said - 1 and (one.until or now) >= reached + margin_s
                    if there and line not in one.lines:
                        self.wrong.add("all hear a line", f"{who} in {room} never heard {line!r}")

    def _order(self, room: str, heard: list[list[str]]) -> None:
        """Whether one order of all lines explains what each heard."""
        before: TopologicalSorter[str] = TopologicalSorter()
        for lines in heard:
            for one, other in pairwise(lines):
                before.add(other, one)
        try:
            before.prepare()
        except CycleError as why:
            self.wrong.add("chat in one order", f"{room}: {why.args[1][:4]}")
