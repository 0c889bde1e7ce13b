"""What an acknowledged request owes to another player, who must be shown it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from attrs import define, field, frozen

from simulation.outcomes import Violations

INVITE_S = 60.0  # for so long nothing ends an invite but what the two do


@frozen
class Invite:
    """An invite into a party that was acknowledged at ``at``.

    ``still``: whether neither of the two has moved to another party since, or gone away.
    """

    party: str
    sender: str
    recipient: str
    at: float
    still: Callable[[], bool]


@define(eq=False)
class Invites:
    """Who is invited is shown it."""

    wrong: Violations
    _of: dict[str, list[Invite]] = field(factory=dict, init=False)  # account -> the newest ones

    def sent(self, account: str, invite: Invite) -> None:
        """One was acknowledged, to the player of this account."""
        self._of[account] = [*self._of.get(account, [])[-9:], invite]

    def declining(self, account: str) -> None:
        """The player declines: all of a sender or of a party end by it."""
        self._of.pop(account, None)

    def shown(
        self,
        account: str,
        parties: Collection[str],
        began: float,
        untroubled: Callable[[float, str], bool],
    ) -> None:
        """What the player is shown, who asked for it at ``began``."""
        for one in self._of.pop(account, []):
            if one.at >= began or began - one.at > INVITE_S or not one.still():
                continue
            well = untroubled(one.at, one.sender) and untroubled(one.at, one.recipient)
            if well and one.party not in parties:
                what = f"{one.recipient} is not shown the invite of {one.sender} into {one.party}"
                self.wrong.add("acknowledged means present", what)
