"""The history of guilds, as the players saw them.

A player has at most one guild, and a guild has one leader.
"""

from collections.abc import Iterable

from attrs import define, field, frozen

from simulation.holdings import Register, Write
from simulation.outcomes import ACKED, UNKNOWN, Violations

LEADER, OFFICER, MEMBER = "leader", "officer", "member"
JOINS_S = 10.0  # an action's result may become visible this late
NONE = ""  # in place of a guild's name


@frozen
class Roll:
    """A guild as shown or stored; ``ranks`` holds the account and rank of each seat."""

    name: str
    leader: str
    ranks: tuple[tuple[str, str], ...]


@define(eq=False)
class Memberships:
    """Checks which guild each player is shown, and which rank in it; guilds are compared by name.

    A guild's name contains the number of the player who founded the guild. So two players never use
    the same name, and a name belongs to one guild at a time.
    """

    wrong: Violations
    most: int = 100  # members
    of: Register = field(init=False)  # account -> name of the guild
    ranks: Register = field(init=False)  # name and account -> rank
    founded_names: dict[str, None] = field(
        factory=dict
    )  # names of guilds that somebody has asked for
    _over: dict[str, float] = field(factory=dict, init=False)  # name -> surely disbanded since
    _ending: dict[str, None] = field(factory=dict, init=False)  # names that may be disbanded

    def __attrs_post_init__(self) -> None:
        self.of, self.ranks = Register(self.wrong), Register(self.wrong)

    def joining(self, account: str, name: str, rank: str, now: float) -> list[Write]:
        """Record a pending request of the player to found a guild or to accept an invite."""
        if rank == LEADER:
            self.founded_names[name] = None
            self._over.pop(name, None)
        writes = [
            self.of.sent(account, name, now),
            self.ranks.sent(f"{name}/{account}", rank, now),
        ]
        if name in self._ending:
            self.of.sent(account, NONE, now)
        return writes

    def may_have_joined(self, account: str, since: float) -> bool:
        """Return whether the player has possibly founded or joined a guild after ``since``.

        This is possible if a request to do so was still pending at that time or later.
        """
        writes = self.of.of.get(account, ())
        return any(write.value and write.ended >= since - JOINS_S for write in writes)

    def leaving(self, account: str, now: float) -> list[Write]:
        """Record that the player is leaving or being removed."""
        return [self.of.sent(account, NONE, now)]

    def ranking(self, name: str, leader: str, account: str, rank: str, now: float) -> list[Write]:
        """Record a pending change of rank; a new leader also changes the old leader's rank."""
        writes = [self.ranks.sent(f"{name}/{account}", rank, now)]
        if rank == LEADER:
            writes.append(self.ranks.sent(f"{name}/{leader}", OFFICER, now))
        return writes

    def disbanding(self, name: str, now: float) -> None:
        """Record a pending disbanding: from now on, it is correct if the members have no guild."""
        self._ending[name] = None
        for account, writes in self.of.of.items():
            if any(write.value == name for write in writes):
                self.of.sent(account, NONE, now)

    def disbanded(self, name: str, now: float) -> None:
        """Record that the guild has certainly been disbanded."""
        self._over[name] = now

    def answered(self, writes: Iterable[Write], state: str, now: float) -> None:
        """Record the outcome of pending requests."""
        for write in writes:
            self.of.answered(write, state, now)

    def shown(self, account: str, roll: Roll | None, began: float) -> None:
        """Check the guild that the player was shown after a request at ``began``.

        ``roll`` is None if the player was shown no guild.
        """
        self.of.check_value(account, NONE if roll is None else roll.name, began)
        if roll is None:
            return
        if account not in dict(roll.ranks):
            self.wrong.add("one guild each", f"{account} is shown {roll.name} without a seat in it")
        self._whole(roll, began)

    def _whole(self, roll: Roll, began: float) -> None:
        leaders = [account for account, rank in roll.ranks if rank == LEADER]
        if leaders != [roll.leader]:
            self.wrong.add(
                "one leader", f"{roll.name}: leader {roll.leader}, but rank of leader: {leaders}"
            )
        if len(dict(roll.ranks)) != len(roll.ranks) or len(roll.ranks) > self.most:
            self.wrong.add("seats within limits", f"{roll.name} has {len(roll.ranks)} members")
        if began > self._over.get(roll.name, began):
            self.wrong.add(
                "what was ended is ended", f"the disbanded guild {roll.name} still exists"
            )
        for account, rank in roll.ranks:
            self.ranks.check_value(f"{roll.name}/{account}", rank, began)

    def settled(self, rolls: list[Roll], now: float) -> None:
        """Compare all stored guilds with the requests and replies, at the end of the run."""
        seats: dict[str, str] = {}
        for roll in rolls:
            if roll.name not in self.founded_names:
                self.wrong.add("nothing from nowhere", f"nobody founded {roll.name}")
            for account, _ in roll.ranks:
                if account in seats:
                    self.wrong.add("one guild each", f"{account} is also in {seats[account]}")
                seats[account] = roll.name
            self._whole(roll, now)
        for account in dict.fromkeys([*self.of.of, *seats]):
            name = seats.get(account, NONE)
            if name and not self._may_be_in(account, name):
                self.wrong.add("nothing from nowhere", f"{account} never joined {name}")
            self.of.check_value(account, name, now)

    def _may_be_in(self, account: str, name: str) -> bool:
        known = self.of.of.get(account, ())
        return any(write.value == name and write.state in (ACKED, UNKNOWN) for write in known)
