"""From when on the tokens of an account count: what ends sessions before they expire.

In memory, since it is looked at for every request; ``accounts/sessions.py`` fills it and keeps
it as the database has it, whoever writes there.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import SessionsEnded, Signal


@define
class Epochs:
    """Epoch seconds by account; an account that is not here has never ended a session.

    ``ended`` is sent once for each account whose epoch moves on.
    """

    ended: Signal[SessionsEnded] = field(factory=Signal)
    learned: int = field(default=0, init=False)  # how often ``learn`` has moved one
    _not_before: dict[AccountId, int] = field(factory=dict, init=False)

    def not_before(self, account_id: AccountId) -> int:
        """Tokens issued earlier are refused."""
        return self._not_before.get(account_id, 0)

    def learn(self, account_id: AccountId, not_before: int) -> None:
        """A transaction that has committed says so."""
        if not_before > self._not_before.get(account_id, 0):
            self.learned += 1
            self._not_before[account_id] = not_before
            self.ended.send(SessionsEnded(account_id, not_before))

    def stored(self, found: Mapping[AccountId, int], learned: int) -> None:
        """All that the database has; ``learned`` as it was before the reading began.

        Where something was learned meanwhile the reading may be older than that, so nothing
        is taken back by it.
        """
        current = learned == self.learned
        for account_id, not_before in found.items():
            self.learn(account_id, not_before)
        if current:
            self._not_before = dict(found)
