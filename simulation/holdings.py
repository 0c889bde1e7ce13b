"""The history of items, purchases, values, slots and links, and checks of what players see.

Like ``history.py``, this module shares no code with the services. Times are simulated seconds.
"""

from collections.abc import Iterable, Mapping

from attrs import define, field, frozen

from simulation.outcomes import ACKED, REFUSED, UNKNOWN, Violations

LINK_S = 160 * 3600.0  # a link may end by itself after this time
SLOTS = 3  # of slayer links
REMEMBERED = 40  # replaced or removed states of each thing


@define(eq=False)
class ItemChange:
    """A request's effect on an instanced item, alone or as a part of a transaction.

    ``marker`` is the transaction's marker item, if there is one; the inventory has this item if and
    only if the change was applied. Without a marker, ``state`` says whether the change was applied.
    If ``version`` is None, the request removes the item.
    """

    version: int | None
    data: str = ""
    marker: str = ""
    state: str = UNKNOWN

    def counts(self, markers: Mapping[str, int]) -> bool:
        """Return whether the change was certainly applied."""
        return markers.get(self.marker, 0) > 0 if self.marker else self.state == ACKED

    def may_count(self, markers: Mapping[str, int]) -> bool:
        """Return whether the change may have been applied, because nothing disproves it."""
        return self.counts(markers) if self.marker else self.state != REFUSED


@define(eq=False)
class Things:
    """Checks instanced items: versions only rise, and a transaction is applied as a whole."""

    wrong: Violations
    of: dict[str, dict[str, list[ItemChange]]] = field(factory=dict)  # character -> item

    def sent(self, character: str, item: str, change: ItemChange) -> ItemChange:
        """Record a pending change."""
        self.of.setdefault(character, {}).setdefault(item, []).append(change)
        return change

    def settled(self, character: str, item: str) -> bool:
        """Return whether every change's outcome is known, so that no change is still pending."""
        changes = self.of.get(character, {}).get(item, [])
        return not any(change.state == UNKNOWN for change in changes)

    def check_items(
        self, character: str, held: Mapping[str, tuple[int, str | None]], markers: Mapping[str, int]
    ) -> None:
        """Check the version and data of all items, which were read while no change was pending."""
        known = self.of.get(character, {})
        for item, changes in known.items():
            self._check_item(f"{item} of {character}", changes, held.get(item), markers)
        gone = [item for item, changes in known.items() if changes[-1].version is None]
        for item in gone[:-REMEMBERED]:
            del known[item]

    def _check_item(
        self,
        what: str,
        changes: list[ItemChange],
        stored: tuple[int, str | None] | None,
        markers: Mapping[str, int],
    ) -> None:
        done = [change for change in changes if change.counts(markers)]
        least = max((change.version for change in done if change.version is not None), default=None)
        if stored is None:
            if least is not None and not any(
                change.version is None and change.may_count(markers) for change in changes
            ):
                self.wrong.add("acknowledged means present", f"{what} is missing")
            return
        version, data = stored
        if any(change.version is None for change in done):
            self.wrong.add("what was ended is ended", f"{what} still exists")
        if least is not None and version < least:
            self.wrong.add("versions only rise", f"{what}: version {version} after version {least}")
        right = [change for change in changes if (change.version, change.data) == (version, data)]
        if not any(change.may_count(markers) for change in right):
            self.wrong.add("whole or not at all", f"{what}: nobody sent this version {version}")
        changes[:] = [
            change for change in changes if change.version is None or change.version >= version
        ]


@define(eq=False)
class Purchases:
    """Checks the store: each purchase gives the whole offer once, even if it is requested twice."""

    wrong: Violations
    of: dict[str, dict[str, tuple[int, int]]] = field(factory=dict)  # character -> item -> asked
    rights: dict[str, set[str]] = field(factory=dict)  # account -> entitlements it must have

    def bought(
        self, account: str, character: str, items: Iterable[str], rights: Iterable[str], state: str
    ) -> None:
        """Record the outcome of a purchase."""
        sure, unsure = int(state == ACKED), int(state == UNKNOWN)
        known = self.of.setdefault(character, {})
        for item in items:
            before = known.get(item, (0, 0))
            known[item] = before[0] + sure, before[1] + unsure
        if sure:
            self.rights.setdefault(account, set()).update(rights)

    def check_purchases(self, character: str, held: Mapping[str, int]) -> None:
        """Check that the inventory has each purchased item once."""
        for item, (sure, unsure) in self.of.get(character, {}).items():
            count = held.get(item, 0)
            if sure and not count:
                self.wrong.add("acknowledged means present", f"{item} of {character} is missing")
            if count > min(1, sure + unsure):
                self.wrong.add("a purchase once", f"{character} has {count} of {item}")

    def entitled(self, stored: set[tuple[str, str]]) -> None:
        """Check that the stored (account, name) entitlements include all purchased entitlements."""
        for account, names in self.rights.items():
            for name in sorted(names):
                if (account, name) not in stored:
                    self.wrong.add("acknowledged means present", f"{name} of {account} is missing")


@define(eq=False)
class Write:
    """One write of a value that is always replaced as a whole."""

    value: str
    sent: float
    ended: float = float("inf")
    state: str = UNKNOWN


@define(eq=False)
class Register:
    """Checks values that each write replaces completely, such as a loadout.

    A read must return the last value, or a value whose write was pending during the read.
    """

    wrong: Violations
    of: dict[str, list[Write]] = field(factory=dict)

    def sent(self, what: str, value: str, now: float) -> Write:
        """Record a pending new value."""
        writes = self.of.setdefault(what, [])
        writes.append(Write(value, now))
        if len(writes) > REMEMBERED:
            old = next((at for at, write in enumerate(writes) if write.state != UNKNOWN), 0)
            del writes[old]
        return writes[-1]

    def answered(self, write: Write, state: str, now: float) -> None:
        """Record the outcome and time of a write."""
        write.state, write.ended = state, now

    def check_value(self, what: str, value: str | None, began: float) -> None:
        """Check a value that was requested at ``began``; None means that nothing was stored."""
        writes = self.of.get(what, ())
        sure = [write for write in writes if write.state == ACKED and write.ended < began]
        same = [write for write in writes if write.value == value and write.state != REFUSED]
        if not same and sure and len(writes) < REMEMBERED:
            text = "as if never written" if value is None else f"{value[:60]!r}, which nobody wrote"
            self.wrong.add("acknowledged means present", f"{what} is {text}")
        for write in same:
            if write.state != ACKED or not any(later.sent > write.ended for later in sure):
                return
        if same:
            self.wrong.add(
                "acknowledged means present", f"{what}: {same[0].value[:60]!r} was replaced"
            )


@define(eq=False)
class Slots:
    """Checks loadout slots: each unlock adds one slot, and no slot is lost."""

    wrong: Violations
    most_slots: int = 5
    least: dict[str, int] = field(factory=dict)
    most: dict[str, int] = field(factory=dict)

    def unlocked(self, character: str, state: str) -> None:
        """Record the outcome of an unlock request."""
        if state != REFUSED:
            self.most[character] = self.most.get(character, 0) + 1
        if state == ACKED:
            self.least[character] = self.least.get(character, 0) + 1

    def check_slots(self, character: str, slots: int) -> None:
        """Check the number of slots while no unlock is pending; a new character has one slot."""
        least = min(self.most_slots, 1 + self.least.get(character, 0))
        most = min(self.most_slots, 1 + self.most.get(character, 0))
        if not least <= slots <= most:
            self.wrong.add(
                "counts agree", f"{character} has {slots} slots, expected {least} to {most}"
            )


@define(eq=False)
class Link:
    """A slayer link, from its invite to its removal.

    ``made`` is the outcome of the request that accepts the invite, and ``ended`` is the outcome of
    the removal. Both are ``REFUSED`` until such a request is sent.
    """

    id: str
    pair: tuple[str, str]
    made: str = REFUSED
    ended: str = REFUSED
    at: float = 0.0


@frozen
class LinkRow:
    """One side of an active link, as the database stores it or the host shows it."""

    account: str
    linked: str
    slot: int
    link: str


@define(eq=False)
class Links:
    """Checks that a slayer link has two sides or none, and fills one free slot of each player."""

    wrong: Violations
    known: dict[str, Link] = field(factory=dict)
    _of: dict[tuple[str, str], list[Link]] = field(factory=dict, init=False)

    def invited(self, link: str, first: str, second: str) -> None:
        """Record an invite."""
        low, high = sorted((first, second))
        if link not in self.known:
            self.known[link] = made = Link(link, (low, high))
            every = self._of.setdefault(made.pair, [])
            every.append(made)
            over = [x for x in every[:-REMEMBERED] if x.ended == ACKED]
            for old in over:
                every.remove(old)
                del self.known[old.id]

    def accepting(self, link: str, first: str, second: str, now: float) -> Link:
        """Record a pending acceptance."""
        self.invited(link, first, second)
        known = self.known[link]
        known.at = now
        if known.made == REFUSED:
            known.made = UNKNOWN
        return known

    def ending(self, first: str, second: str) -> list[Link]:
        """Record that two players' links are being removed; return those that surely exist."""
        low, high = sorted((first, second))
        there = [x for x in self._of.get((low, high), ()) if x.made != REFUSED]
        sure = [x for x in there if x.made == ACKED and x.ended != ACKED]
        for link in there:
            if link.ended == REFUSED:
                link.ended = UNKNOWN
        return sure

    def check_links(self, rows: Iterable[LinkRow]) -> None:
        """Check the links shown to a player, or all stored links."""
        taken: set[tuple[str, int]] = set()
        for row in rows:
            if (row.account, row.slot) in taken or not 1 <= row.slot <= SLOTS:
                self.wrong.add("a slot for each", f"{row.account} has slot {row.slot} twice")
            taken.add((row.account, row.slot))
            known = self.known.get(row.link)
            if known is None or known.made == REFUSED:
                self.wrong.add("nothing from nowhere", f"nobody accepted the link {row.link}")
            elif {row.account, row.linked} != set(known.pair):
                self.wrong.add(
                    "whole or not at all", f"the link {row.link} should join {known.pair}"
                )

    def settled(self, rows: list[LinkRow], now: float) -> None:
        """Check all stored links at the end of the run."""
        self.check_links(rows)
        sides: dict[str, int] = {}
        for row in rows:
            sides[row.link] = sides.get(row.link, 0) + 1
        for link, count in sides.items():
            if count != 2:
                self.wrong.add("whole or not at all", f"the link {link} has {count} sides")
        for link, known in self.known.items():
            if known.made == ACKED and known.ended == REFUSED and now - known.at < LINK_S:
                if link not in sides:
                    self.wrong.add("acknowledged means present", f"the link {link} is missing")
            elif known.ended == ACKED and link in sides:
                self.wrong.add("what was ended is ended", f"the ended link {link} still exists")
