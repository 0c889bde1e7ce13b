"""The history of what players saw, and checks that a correct host could have shown the same.

The history shares no code with the services: the rules are written independently. Each part records
requests, replies and reads as they happen and reports violations. ``audit.py`` compares the history
with the stored data at the end.
"""

from collections import defaultdict
from math import inf

from attrs import define, field

from simulation.answers import Answers
from simulation.holdings import Links, Purchases, Register, Slots, Things
from simulation.memberships import Memberships
from simulation.outcomes import ACKED, REFUSED, UNKNOWN, Violations
from simulation.owed import Invites
from simulation.talk import ChatHistory

PATIENCE_S = 60.0  # for one reply
REPLAY_S = 5.0  # an equal grant within this time is a repeat
MATCH_S = 200.0  # from asking for a game server to an address or a refusal
YOUNG_S = 600.0  # a younger save is never thinned


@define(eq=False)
class Saves:
    """Checks that acknowledged saves remain, versions only rise, and nothing unsent is stored."""

    wrong: Violations
    acked: dict[str, int] = field(factory=dict)  # by character: the highest version acknowledged
    _sent: dict[str, dict[int, set[str]]] = field(factory=dict)
    sure: dict[str, dict[int, str]] = field(factory=dict)

    def sent(self, character: str, version: int, data: str) -> None:
        """Record a pending save: from now on, it is correct if the host has stored the save."""
        versions = self._sent.setdefault(character, {})
        versions.setdefault(version, set()).add(data)
        for old in [known_version for known_version in versions if known_version < version - 50]:
            del versions[old]

    def answered(self, character: str, version: int, data: str) -> None:
        """Record an acknowledged save, which must be stored from now on."""
        self.acked[character] = max(version, self.acked.get(character, 0))
        known = self.sure.setdefault(character, {})
        if known.get(version, data) != data:
            self.wrong.add(
                "a version is one document", f"{character} has two documents of version {version}"
            )
        known[version] = data
        for old in [known_version for known_version in known if known_version < version - 50]:
            del known[old]

    def rivalled(self, character: str, version: int, data: str) -> bool:
        """Return whether a newer save was sent, or a save of this version with other data."""
        versions = self._sent.get(character, {})
        return max(versions, default=0) > version or bool(versions.get(version, set()) - {data})

    def check_saves(self, character: str, saves: list[tuple[int, int]], most: int) -> None:
        """Check the save history: the version and time (ms) of each save, newest first.

        The newest ``most`` saves must remain. Of the older saves, at most one of each hour may
        remain. Saves that are less than ``YOUNG_S`` seconds older than the newest save are exempt
        from this limit.
        """
        versions = [version for version, _ in saves[:most]]
        old_ms = saves[0][1] - YOUNG_S * 1_000
        hours = [at_ms // 3_600_000 for _, at_ms in saves[most:] if at_ms <= old_ms]
        if len(set(hours)) != len(hours):
            self.wrong.add(
                "old saves are thinned", f"{character} has {len(saves)} saves, some of one hour"
            )
        since = versions[-1] if len(versions) == most else 0  # with fewer saves none is removed
        for version in self.sure.get(character, {}):
            if version > since and version not in versions:
                self.wrong.add(
                    "acknowledged means present",
                    f"{character}: save {version} is missing in the history",
                )

    def compare_save(self, character: str, version: int, data: str, at_least: int) -> None:
        """Check a save that a player read after version ``at_least`` was acknowledged."""
        if version < at_least:
            self.wrong.add(
                "acknowledged means present",
                f"{character}: read {version}, although {at_least} was saved",
            )
        sure = self.sure.get(character, {}).get(version)
        if sure is not None and sure != data:
            self.wrong.add("acknowledged means present", f"{character}: save {version} has changed")
        known = self._sent.get(character, {}).get(version)
        if known is not None and data not in known:
            self.wrong.add("whole or not at all", f"{character}: nobody sent this save {version}")


@define(eq=False)
class Earning:
    """An inventory transaction, which adds an amount of currency and a unique marker item.

    The host must apply both changes, or neither of them.
    """

    amount: int
    marker: str
    state: str = UNKNOWN


@define(eq=False)
class Stacks:
    """Checks that a transaction is applied once and completely, and that totals are correct."""

    wrong: Violations
    of: dict[str, dict[str, Earning]] = field(factory=dict)  # character -> transaction
    sure: dict[str, int] = field(factory=lambda: defaultdict(int))  # what may be spent

    def sent(self, character: str, transaction: str, amount: int, marker: str) -> None:
        """Record a pending transaction; a negative amount spends currency that the player has."""
        self.of.setdefault(character, {})[transaction] = Earning(amount, marker)
        self.sure[character] += min(0, amount)

    def answered(self, character: str, transaction: str, state: str) -> None:
        """Record a reply to a transaction.

        An acknowledgement is final. After a rejection, a retry can still be acknowledged.
        """
        earning = self.of[character][transaction]
        if state == ACKED and earning.state != ACKED:
            self.sure[character] += max(0, earning.amount)
        if earning.state == UNKNOWN or state == ACKED:
            earning.state = state

    def check_inventory(self, character: str, currency: int, markers: dict[str, int]) -> None:
        """Check an inventory that was read while the character had no pending transaction."""
        total = 0
        for name, earning in self.of.get(character, {}).items():
            count = markers.get(earning.marker, 0)
            if count > 1:
                self.wrong.add(
                    "a transaction once", f"{name} of {character} was applied {count} times"
                )
            if earning.state == ACKED and count == 0:
                self.wrong.add("acknowledged means present", f"{name} of {character} is missing")
            total += earning.amount * min(1, count)
        if currency != total:
            self.wrong.add("totals are conserved", f"{character} has {currency} instead of {total}")


@define(eq=False)
class Grant:
    """A grant of experience, which the game server sends in two concurrent requests."""

    account: str
    amount: int
    began: float
    ended: float = inf  # neither of the two requests is pending after this time
    again: bool = False  # the second request may be applied, too


@define(eq=False)
class Grants:
    """Checks that a player's experience is the sum of the grants, each applied once.

    The host treats an equal grant within ``REPLAY_S`` seconds as a retry and does not apply it
    again. However, the specification lets the host apply both requests of a grant in two cases: the
    second request comes after ``REPLAY_S``, or another grant of the account arrives between the two
    requests.
    """

    wrong: Violations
    least: dict[str, int] = field(factory=lambda: defaultdict(int))
    most: dict[str, int] = field(factory=lambda: defaultdict(int))
    _last: dict[str, list[Grant]] = field(factory=lambda: defaultdict(list), init=False)

    def sent(self, account: str, amount: int, now: float) -> Grant:
        """Record a pending grant, which is concurrent with the account's other pending grants."""
        grant = Grant(account, amount, now)
        beside = [pending for pending in self._last[account] if pending.ended > now]
        for pending in (grant, *beside) if beside else ():
            self._may_count_again(pending)
        self._last[account] = [*beside, grant]
        return grant

    def answered(self, grant: Grant, state: str, now: float) -> None:
        """Record that the grant was acknowledged or rejected, or will never get a reply."""
        if now - grant.began >= REPLAY_S or state == UNKNOWN:
            self._may_count_again(grant)
        grant.ended = now + PATIENCE_S if state == UNKNOWN else now
        if state != REFUSED:
            self.most[grant.account] += grant.amount
        elif grant.again:
            self.most[grant.account] -= grant.amount
        if state == ACKED:
            self.least[grant.account] += grant.amount

    def _may_count_again(self, grant: Grant) -> None:
        if not grant.again:
            grant.again = True
            self.most[grant.account] += grant.amount

    def check_progress(self, account: str, progress: int) -> None:
        """Check the stored progress while no grant is pending."""
        if not self.least[account] <= progress <= self.most[account]:
            least, most = self.least[account], self.most[account]
            self.wrong.add("a grant once", f"{account} has {progress}, expected {least} to {most}")


@define(eq=False)
class Parties:
    """Checks parties: a polling player is a member, a member leads, and the size is allowed."""

    wrong: Violations
    seats: int = 4
    shaken_at: float = -1e9  # when live state was last lost, or may have been

    def shake(self, now: float) -> None:
        """Record that the host may have lost its live state."""
        self.shaken_at = now

    def joined(self, account: str, party: str, shown: str, now: float) -> None:
        """Check the party that the host shows to a player who accepted an invite into ``party``."""
        if shown != party and now - self.shaken_at > PATIENCE_S:
            self.wrong.add(
                "acknowledged means present", f"{account} joined {party}, but is shown {shown}"
            )

    def check_poll(self, account: str, party: str, members: list[str], leader: str) -> None:
        """Check a party poll: the player is a member, a member leads, and the size is allowed."""
        if account not in members:
            self.wrong.add("one party each", f"{account} is shown {party} without a seat in it")
        if len(members) > self.seats or len(set(members)) != len(members):
            self.wrong.add("seats within limits", f"{party} has {len(members)} members")
        if leader not in members:
            self.wrong.add("one leader", f"{party} is led by {leader}, who is not in it")

    def compared(self, shown: dict[str, tuple[str, tuple[str, ...], str]]) -> None:
        """Check that all members of a party are shown the same party at the end of the run."""
        for account, (party, members, leader) in shown.items():
            for member in members:
                if member in shown and shown[member] != (party, members, leader):
                    self.wrong.add(
                        "one party each", f"{account} and {member} are shown different parties"
                    )


@define(eq=False)
class Waiting:
    """Checks that no request waits forever; stores the pending requests and their deadlines."""

    wrong: Violations
    _open: dict[int, tuple[str, float]] = field(factory=dict, init=False)
    _number: int = field(default=0, init=False)
    worst: float = 0.0

    def began(self, what: str, now: float, patience_s: float = PATIENCE_S) -> int:
        """Record a request; return its number, which is passed to ``ended``."""
        self._number += 1
        self._open[self._number] = what, now + patience_s
        return self._number

    def restart(self, number: int, now: float, patience_s: float) -> None:
        """Restart the timeout of a request that is delayed for a legitimate reason."""
        if number in self._open:
            self._open[number] = self._open[number][0], now + patience_s

    def ended(self, number: int) -> None:
        """Record that the reply has arrived or the caller has left."""
        self._open.pop(number, None)

    def report_overdue(self, now: float) -> None:
        """Report the requests that have waited too long."""
        for number, (what, until) in list(self._open.items()):
            if now > until:
                del self._open[number]
                self.wrong.add("nobody waits for ever", what)


@define(eq=False)
class History:
    """All records of a run."""

    wrong: Violations = field(factory=Violations)
    saves: Saves = field(init=False)
    stacks: Stacks = field(init=False)
    grants: Grants = field(init=False)
    parties: Parties = field(init=False)
    chat: ChatHistory = field(init=False)
    waiting: Waiting = field(init=False)
    things: Things = field(init=False)
    purchases: Purchases = field(init=False)
    slots: Slots = field(init=False)
    links: Links = field(init=False)
    guilds: Memberships = field(init=False)
    answers: Answers = field(init=False)
    boards: Saves = field(init=False)  # of bounties, by account and bounty
    chosen: Register = field(init=False)  # loadout slots, and the hunt pass
    friends: dict[tuple[str, str], str] = field(factory=dict)  # pair -> known state
    befriending: dict[tuple[str, str], None] = field(factory=dict)  # (sender, recipient)
    invites: Invites = field(init=False)  # into parties
    calm: bool = True  # no fault is simulated, so no request may fail because of one
    registered: dict[str, str] = field(factory=dict)  # name -> account
    unsure_names: set[str] = field(factory=set)  # registrations that got no answer

    def __attrs_post_init__(self) -> None:
        self.saves, self.stacks = Saves(self.wrong), Stacks(self.wrong)
        self.grants, self.parties = Grants(self.wrong), Parties(self.wrong)
        self.chat, self.waiting = ChatHistory(self.wrong), Waiting(self.wrong)
        self.things, self.purchases = Things(self.wrong), Purchases(self.wrong)
        self.slots, self.links = Slots(self.wrong), Links(self.wrong)
        self.guilds, self.answers = Memberships(self.wrong), Answers(self.wrong)
        self.invites = Invites(self.wrong)
        self.boards, self.chosen = Saves(self.wrong), Register(self.wrong)
