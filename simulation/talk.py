"""The history of the chat as players received it: lines in one order, none repeated or lost."""

from collections.abc import Callable, Collection
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from attrs import define, field

from simulation.outcomes import Violations

ECHO_S = 30.0  # the deadline of a line's echo to its speaker
THERE_S = 5.0  # until every process knows a session
LATE_S = 300.0  # the deadline of echo or refusal, even during faults


@define(eq=False)
class Listening:
    """A chat session's time in a room: when it entered and left, and the lines it received."""

    since: float
    lines: list[str] = field(factory=list)
    until: float | None = None


@define(eq=False)
class ChatHistory:
    """Checks that chat lines reach every player of a room, in the same order, and only once."""

    wrong: Violations
    rooms: dict[str, dict[str, list[Listening]]] = field(factory=dict)  # room -> listener
    sent_times: dict[str, float] = field(factory=dict)  # line -> when it was sent
    reached: dict[str, float] = field(factory=dict)  # line -> when it was first received
    echoed: dict[str, set[str]] = field(factory=dict)  # room -> lines their sender received
    whispers: dict[str, int] = field(factory=dict)
    owed: dict[str, tuple[str, str]] = field(factory=dict)  # line -> room and who said it
    refused: set[str] = field(factory=set)  # lines whose sender was told that they were rejected
    whispered_to: dict[str, tuple[str, str]] = field(factory=dict)  # line -> recipient and sender
    count: int = 0
    spoken: int = 0  # lines and whispers
    gaps: list[tuple[float, float]] = field(factory=list)  # periods with disconnected metagames

    def gap(self, since: float, until: float, margin_s: float = 30.0) -> None:
        """Record a period in which it is correct if a line reaches only some players.

        The period is extended by ``margin_s`` at both ends.
        """
        self.gaps.append((since - margin_s, until + margin_s))

    def entered(self, room: str, who: str, now: float) -> None:
        """Record that a session entered the room; the session must receive each later line."""
        self.left(room, who, now)
        self.rooms.setdefault(room, {}).setdefault(who, []).append(Listening(now))

    def left(self, room: str, who: str, now: float) -> None:
        """Record that the player left the room: later lines need not arrive."""
        for span in self.rooms.get(room, {}).get(who, [])[-1:]:
            if span.until is None:
                span.until = now
        for line in [line for line, owed in self.owed.items() if owed == (room, who)]:
            self._settled(line)
        for line in [line for line, two in self.whispered_to.items() if who in two]:
            del self.whispered_to[line]

    def utters(self, text: str, now: float) -> str:
        """Replace ``#`` in the text by a unique number, and record the time of sending."""
        line = text.replace("#", str(self.spoken), 1)
        self.spoken += 1
        self.sent_times[line] = now
        return line

    def spoke(self, room: str, who: str, line: str) -> None:
        """Record a line sent to a room; the host must echo the line to its sender."""
        self.owed[line] = room, who

    def owes(self, line: str, to: str, who: str) -> None:
        """Record a whisper to an online session, which must receive it."""
        self.whispered_to[line] = to, who

    def is_there(self, who: str, now: float) -> bool:
        """Return whether every metagame certainly knows the chat session by now."""
        return any(
            listener.until is None and listener.since < now - THERE_S
            for listeners in self.rooms.values()
            for listener in listeners.get(who, ())[-1:]
        )

    def report_lost_whispers(self, now: float, untroubled: Callable[[float, str], bool]) -> None:
        """Report whispers that were late or lost although there was no fault."""
        for line, (to, who) in list(self.whispered_to.items()):
            sent_at = self.sent_times[line]
            if now - sent_at > ECHO_S:
                del self.whispered_to[line]
                if untroubled(sent_at, to) and untroubled(sent_at, who):
                    self.wrong.add("a whisper is heard", f"{to} never received {line!r} from {who}")

    def report_lost_lines(self, now: float, untroubled: Callable[[float, str], bool]) -> None:
        """Report lines whose echo was late or lost although there was no fault.

        During a fault, the host can delay or reject a line, but it must not lose the line silently.
        """
        for line, (room, who) in list(self.owed.items()):
            if now - self.sent_times[line] <= ECHO_S:
                continue
            refused = line in self.refused
            if untroubled(self.sent_times[line], who) or (
                now - self.sent_times[line] > LATE_S and not refused
            ):
                self.wrong.add("a line comes back", f"{who} in {room} never received {line!r}")
            elif not refused:
                continue
            self._settled(line)

    def refuses(self, line: str) -> None:
        """Record that the host told a sender that the line was rejected."""
        self.whispered_to.pop(line, None)
        if line in self.owed:
            self.refused.add(line)

    def _settled(self, line: str) -> None:
        self.owed.pop(line, None)
        self.refused.discard(line)

    def check_received(self, room: str, who: str, line: str, own: bool, now: float) -> None:
        """Check that a received line was sent, and that the session gets it for the first time."""
        self.count += 1
        if own:
            self._settled(line)
        self.reached.setdefault(line, now)
        if line not in self.sent_times:
            self.wrong.add("chat tells what was said", f"nobody sent {line!r}")
        spans = self.rooms.get(room, {}).get(who)
        if not spans:
            return
        if any(line in span.lines for span in spans[-1:]):
            self.wrong.add("each line once", f"{who} received {line!r} twice")
        spans[-1].lines.append(line)
        if own:
            self.echoed.setdefault(room, set()).add(line)

    def whispered(self, line: str, who: str) -> None:
        """Check that a received whisper was sent, and that it is received for the first time."""
        self.whispered_to.pop(line, None)
        self.whispers[f"{who} {line}"] = self.whispers.get(f"{who} {line}", 0) + 1
        if line not in self.sent_times:
            self.wrong.add("chat tells what was said", f"nobody whispered {line!r}")
        elif self.whispers[f"{who} {line}"] > 1:
            self.wrong.add("each line once", f"{who} received the whisper {line!r} twice")

    def settle(self, now: float, margin_s: float = 20.0) -> None:
        """Compare and forget everything received so far.

        A session must have received a line if it was in the room for long enough: from the time at
        which the line was sent, until ``margin_s`` seconds after the line first reached any
        session.
        """
        self.report_lost_lines(now + LATE_S, lambda _, __: False)
        self._compare(self.sent_times.keys(), now, margin_s)
        self.rooms = {
            room: present
            for room, listeners in self.rooms.items()
            if (
                present := {
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
        """Compare and forget the lines sent before ``before``, to limit the memory."""
        over = {
            line for line, at in self.sent_times.items() if at < before and line not in self.owed
        }
        self._compare(over, now)
        for room, listeners in self.rooms.items():
            for every in listeners.values():
                for span in every:
                    span.lines = [line for line in span.lines if line not in over]
                every[:-1] = [entry for entry in every[:-1] if (entry.until or now) >= before]
            gone = [who for who, (*_, last) in listeners.items() if (last.until or now) < before]
            for who in gone:
                del listeners[who]
            self.echoed[room] = self.echoed.get(room, set()) - over
        for line in over:
            del self.sent_times[line]
            self.reached.pop(line, None)
        self.whispers = {
            key: count for key, count in self.whispers.items() if key.partition(" ")[2] not in over
        }
        self.gaps = [gap for gap in self.gaps if gap[1] >= before]
        self.rooms = {room: entry for room, entry in self.rooms.items() if entry}

    def _compare(self, lines: Collection[str], now: float, margin_s: float = 20.0) -> None:
        """Check that the lines have one order and reached every session that must receive them."""
        for room, listeners in self.rooms.items():
            spans = [(who, span) for who, every in listeners.items() for span in every]
            self._order(room, [span.lines for _, span in spans])
            for line in sorted(self.echoed.get(room, set()).intersection(lines)):
                sent_at, reached = self.sent_times[line], self.reached[line]
                if any(since <= reached and sent_at <= until for since, until in self.gaps):
                    continue
                for who, span in spans:
                    there = span.since <= sent_at - 1 and (span.until or now) >= reached + margin_s
                    if there and line not in span.lines:
                        self.wrong.add(
                            "all hear a line", f"{who} in {room} never received {line!r}"
                        )

    def _order(self, room: str, sequences: list[list[str]]) -> None:
        """Check that a single order of all lines is consistent with each listener's order."""
        before: TopologicalSorter[str] = TopologicalSorter()
        for lines in sequences:
            for earlier, later in pairwise(lines):
                before.add(later, earlier)
        try:
            before.prepare()
        except CycleError as why:
            self.wrong.add("chat in one order", f"{room}: {why.args[1][:4]}")
