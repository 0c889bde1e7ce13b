"""Acknowledged party invites, which the invited players must be shown."""

from collections.abc import Callable, Collection

from attrs import define, field, frozen

from simulation.outcomes import Violations

INVITE_S = 60.0  # within this time, only the two players can end an invite


@frozen
class Invite:
    """A party invite that was acknowledged at ``at``.

    ``still`` returns whether both players have stayed online and in their parties since then.
    """

    party: str
    sender: str
    recipient: str
    at: float
    still: Callable[[], bool]


@define(eq=False)
class Invites:
    """Checks that invited players see their invites."""

    wrong: Violations
    _of: dict[str, list[Invite]] = field(factory=dict, init=False)  # account -> the newest ones

    def sent(self, account: str, invite: Invite) -> None:
        """Record an acknowledged invite to this account."""
        self._of[account] = [*self._of.get(account, [])[-9:], invite]

    def declining(self, account: str) -> None:
        """Forget the player's invites.

        When a player declines an invite, the host also removes the player's other invites from the
        same sender or to the same party.
        """
        self._of.pop(account, None)

    def shown(
        self,
        account: str,
        parties: Collection[str],
        began: float,
        untroubled: Callable[[float, str], bool],
    ) -> None:
        """Check the invites that the player was shown after a request at ``began``."""
        for invite in self._of.pop(account, []):
            if invite.at >= began or began - invite.at > INVITE_S or not invite.still():
                continue
            well = untroubled(invite.at, invite.sender) and untroubled(invite.at, invite.recipient)
            if well and invite.party not in parties:
                pair = f"{invite.recipient} is not shown the invite of {invite.sender}"
                self.wrong.add("acknowledged means present", f"{pair} into {invite.party}")
