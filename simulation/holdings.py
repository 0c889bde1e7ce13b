"""What players hold besides saves and stacks, and whether a right host could have shown it.

Like ``history.py``, of which these are parts: nothing is shared with the services, and each part
says what is wrong as it is told. A time is in seconds of the simulation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import define, field, frozen

from simulation.outcomes import ACKED, REFUSED, UNKNOWN, Violations

LINK_S = 160 * 3600.0  # a link may be over by itself after this long
SLOTS = 3  # of slayer links
REMEMBERED = 40  # of what was replaced or is gone, of each thing


@define(eq=False)
class Change:
    """What one request does to an instanced item, alone or as a part of a transaction.

    ``marker``: of the transaction, whose being held tells that it counts; else ``state`` does.
    ``version`` None: it takes the item away.
    """

    version: int | None
    data: str = ""
    marker: str = ""
    state: str = UNKNOWN

    def counts(self, markers: Mapping[str, int]) -> bool:
        """Whether it has surely been done."""
        return markers.get(self.marker, 0) > 0 if self.marker else self.state == ACKED

    def may_count(self, markers: Mapping[str, int]) -> bool:
        """Whether it may have been done: its answer was lost, and nothing shows that it was not."""
        return self.counts(markers) if self.marker else self.state != REFUSED


@define(eq=False)
class Things:
    """Instanced items: versions only rise, and a transaction changes all of its parts or none."""

    wrong: Violations
    of: dict[str, dict[str, list[Change]]] = field(factory=dict)  # character -> item

    def sent(self, character: str, item: str, change: Change) -> Change:
        """A change is under way."""
        self.of.setdefault(character, {}).setdefault(item, []).append(change)
        return change

    def settled(self, character: str, item: str) -> bool:
        """Whether the outcome of every change of it is known: none comes late."""
        changes = self.of.get(character, {}).get(item, [])
        return not any(one.state == UNKNOWN for one in changes)

    def seen(
        self, character: str, held: Mapping[str, tuple[int, str | None]], markers: Mapping[str, int]
    ) -> None:
        """All items as read when no change was under way: version and data by id."""
        known = self.of.get(character, {})
        for item, changes in known.items():
            self._one(f"{item} of {character}", changes, held.get(item), markers)
        gone = [one for one, changes in known.items() if changes[-1].version is None]
        for item in gone[:-REMEMBERED]:
            del known[item]

    def _one(
        self,
        what: str,
        changes: list[Change],
        found: tuple[int, str | None] | None,
        markers: Mapping[str, int],
    ) -> None:
        done = [one for one in changes if one.counts(markers)]
        least = max((one.version for one in done if one.version is not None), default=None)
        if found is None:
            if least is not None and not any(
                one.version is None and one.may_count(markers) for one in changes
            ):
                self.wrong.add("acknowledged means present", f"{what} is gone")
            return
        version, data = found
        if any(one.version is None for one in done):
            self.wrong.add("what was ended is ended", f"{what} is still there")
        if least is not None and version < least:
            self.wrong.add("versions only rise", f"{what}: {version} after {least}")
        right = [one for one in changes if (one.version, one.data) == (version, data)]
        if not any(one.may_count(markers) for one in right):
            self.wrong.add("whole or not at all", f"{what}: nobody made it {version}")
        changes[:] = [one for one in changes if one.version is None or one.version >= version]


@define(eq=False)
class Purchases:
    """What the store gave: all of an offer, once, also where the request was sent twice."""

    wrong: Violations
    of: dict[str, dict[str, tuple[int, int]]] = field(factory=dict)  # character -> item -> asked
    rights: dict[str, set[str]] = field(factory=dict)  # account -> entitlements it must have

    def bought(
        self, account: str, character: str, items: Iterable[str], rights: Iterable[str], state: str
    ) -> None:
        """A purchase has ended."""
        sure, unsure = int(state == ACKED), int(state == UNKNOWN)
        known = self.of.setdefault(character, {})
        for item in items:
            before = known.get(item, (0, 0))
            known[item] = before[0] + sure, before[1] + unsure
        if sure:
            self.rights.setdefault(account, set()).update(rights)

    def seen(self, character: str, held: Mapping[str, int]) -> None:
        """How many of each item the character holds; an item of the store is held once."""
        for item, (sure, unsure) in self.of.get(character, {}).items():
            count = held.get(item, 0)
            if sure and not count:
                self.wrong.add("acknowledged means present", f"{item} of {character} is gone")
            if count > min(1, sure + unsure):
                self.wrong.add("a purchase once", f"{character} holds {count} of {item}")

    def entitled(self, stored: set[tuple[str, str]]) -> None:
        """The entitlements in force once all is quiet: account and name."""
        for account, names in self.rights.items():
            for name in sorted(names):
                if (account, name) not in stored:
                    self.wrong.add("acknowledged means present", f"{name} of {account} is gone")


@define(eq=False)
class Write:
    """One value for something that is replaced whole."""

    value: str
    sent: float
    ended: float = float("inf")
    state: str = UNKNOWN


@define(eq=False)
class Register:
    """Things that are replaced whole: who reads gets the last value, or one that raced it."""

    wrong: Violations
    of: dict[str, list[Write]] = field(factory=dict)

    def sent(self, what: str, value: str, now: float) -> Write:
        """A new value is under way."""
        writes = self.of.setdefault(what, [])
        writes.append(Write(value, now))
        if len(writes) > REMEMBERED:
            old = next((at for at, one in enumerate(writes) if one.state != UNKNOWN), 0)
            del writes[old]
        return writes[-1]

    def answered(self, write: Write, state: str, now: float) -> None:
        """Note how a write ended, ``state``, and when."""
        write.state, write.ended = state, now

    def read(self, what: str, value: str | None, began: float) -> None:
        """What is there, asked for at ``began``; None, or what nobody wrote, was there before."""
        writes = self.of.get(what, ())
        sure = [one for one in writes if one.state == ACKED and one.ended < began]
        same = [one for one in writes if one.value == value and one.state != REFUSED]
        if not same and sure and len(writes) < REMEMBERED:
            told = "as if never written" if value is None else f"{value[:60]!r}, which nobody wrote"
            self.wrong.add("acknowledged means present", f"{what} is {told}")
        for one in same:
            if one.state != ACKED or not any(other.sent > one.ended for other in sure):
                return
        if same:
            self.wrong.add(
                "acknowledged means present", f"{what}: {same[0].value[:60]!r} was replaced"
            )


@define(eq=False)
class Slots:
    """Loadout slots: each unlocking counts once, and none is lost."""

    wrong: Violations
    most_slots: int = 5
    least: dict[str, int] = field(factory=dict)
    most: dict[str, int] = field(factory=dict)

    def unlocked(self, character: str, state: str) -> None:
        """One more was asked for."""
        if state != REFUSED:
            self.most[character] = self.most.get(character, 0) + 1
        if state == ACKED:
            self.least[character] = self.least.get(character, 0) + 1

    def seen(self, character: str, slots: int) -> None:
        """How many there are when no unlocking is under way; everybody begins with one."""
        least = min(self.most_slots, 1 + self.least.get(character, 0))
        most = min(self.most_slots, 1 + self.most.get(character, 0))
        if not least <= slots <= most:
            self.wrong.add("counts agree", f"{character} has {slots} slots, not {least} to {most}")


@define(eq=False)
class Link:
    """A slayer link, from its invite on: what was answered of its beginning and its end."""

    id: str
    pair: tuple[str, str]
    made: str = REFUSED
    ended: str = REFUSED
    at: float = 0.0


@frozen
class LinkRow:
    """A side of a running link as it is stored or shown."""

    account: str
    other: str
    slot: int
    link: str


@define(eq=False)
class Links:
    """Slayer links: a link has two sides or none, and takes a free slot on each."""

    wrong: Violations
    known: dict[str, Link] = field(factory=dict)
    _of: dict[tuple[str, str], list[Link]] = field(factory=dict, init=False)

    def invited(self, link: str, one: str, other: str) -> None:
        """There is an invite of this id."""
        low, high = sorted((one, other))
        if link not in self.known:
            self.known[link] = made = Link(link, (low, high))
            every = self._of.setdefault(made.pair, [])
            every.append(made)
            over = [x for x in every[:-REMEMBERED] if x.ended == ACKED]
            for old in over:
                every.remove(old)
                del self.known[old.id]

    def accepting(self, link: str, one: str, other: str, now: float) -> Link:
        """An acceptance is under way."""
        self.invited(link, one, other)
        found = self.known[link]
        found.at = now
        if found.made == REFUSED:
            found.made = UNKNOWN
        return found

    def ending(self, one: str, other: str) -> list[Link]:
        """The end of what links these two is under way; the links that surely end by it."""
        low, high = sorted((one, other))
        there = [x for x in self._of.get((low, high), ()) if x.made != REFUSED]
        sure = [x for x in there if x.made == ACKED and x.ended != ACKED]
        for link in there:
            if link.ended == REFUSED:
                link.ended = UNKNOWN
        return sure

    def seen(self, rows: Iterable[LinkRow]) -> None:
        """Judge links that a player was shown, or all of the table: none is from nowhere."""
        taken: set[tuple[str, int]] = set()
        for row in rows:
            if (row.account, row.slot) in taken or not 1 <= row.slot <= SLOTS:
                self.wrong.add("a slot for each", f"{row.account} has slot {row.slot} twice")
            taken.add((row.account, row.slot))
            known = self.known.get(row.link)
            if known is None or known.made == REFUSED:
                self.wrong.add("nothing from nowhere", f"nobody accepted the link {row.link}")
            elif {row.account, row.other} != set(known.pair):
                self.wrong.add("whole or not at all", f"the link {row.link} is of {known.pair}")

    def settled(self, rows: list[LinkRow], now: float) -> None:
        """All that is stored once all is quiet."""
        self.seen(rows)
        sides: dict[str, int] = {}
        for row in rows:
            sides[row.link] = sides.get(row.link, 0) + 1
        for link, count in sides.items():
            if count != 2:
                self.wrong.add("whole or not at all", f"the link {link} has {count} sides")
        for link, known in self.known.items():
            if known.made == ACKED and known.ended == REFUSED and now - known.at < LINK_S:
                if link not in sides:
                    self.wrong.add("acknowledged means present", f"the link {link} is gone")
            elif known.ended == ACKED and link in sides:
                self.wrong.add("what was ended is ended", f"the link {link} runs on")
