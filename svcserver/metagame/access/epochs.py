"""From when on the tokens of an account count: what ends sessions before they expire.

In memory, since it is looked at for every request; ``accounts/sessions.py`` fills it and keeps
it as the database has it, whoever writes there.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field
from cachetools import LRUCache

from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import SessionsEnded, Signal

MAX_SIGNED = 16_384  # accounts whose last token is remembered


@define
class Epochs:
    """Epoch seconds by account; an account that is not here has never ended a session.

    Who ends sessions may go by a clock that is behind ours. So a token that was signed here
    before the news of it came is void, whatever second it bears.

    ``ended`` is sent once for each account whose epoch moves on.
    """

    ended: Signal[SessionsEnded] = field(factory=Signal)
    learned: int = field(default=0, init=False)  # how often ``learn`` has moved one
    max_signed: int = MAX_SIGNED
    _stored: dict[AccountId, int] = field(factory=dict, init=False)  # as the database has it
    _beyond: dict[AccountId, int] = field(factory=dict, init=False)  # where ours is later
    _signed: LRUCache[AccountId, int] = field(init=False)
    _signed_others: int = field(default=0, init=False)  # the latest no longer in ``_signed``

    @_signed.default
    def _nobody(self) -> LRUCache[AccountId, int]:
        return LRUCache(self.max_signed)

    def not_before(self, account_id: AccountId) -> int:
        """Tokens issued earlier are refused."""
        return self._beyond.get(account_id) or self._stored.get(account_id, 0)

    def signed(self, account_id: AccountId, issued_at: int) -> None:
        """A token was signed here."""
        if account_id not in self._signed and len(self._signed) >= self.max_signed:
            _, forgotten = self._signed.popitem()
            self._signed_others = max(self._signed_others, forgotten)
        self._signed[account_id] = max(issued_at, self._signed.get(account_id, 0))

    def learn(self, account_id: AccountId, not_before: int) -> bool:
        """A transaction says so; whether nothing later is known already.

        If something is, what that transaction read has been overtaken.
        """
        if not_before > self._stored.get(account_id, 0):
            self.learned += 1
            last = self._signed.get(account_id, self._signed_others)
            self._stored[account_id] = not_before
            ours = max(last + 1, self._beyond.pop(account_id, 0))
            if ours > not_before:
                self._beyond[account_id] = ours
            self.ended.send(SessionsEnded(account_id, self.not_before(account_id)))
        return not_before >= self._stored.get(account_id, 0)

    def stored(self, found: Mapping[AccountId, int], learned: int) -> None:
        """All that the database has; ``learned`` as it was before the reading began.

        Where something was learned meanwhile the reading may be older than that, so nothing
        is taken back by it.
        """
        current = learned == self.learned
        for account_id, not_before in found.items():
            self.learn(account_id, not_before)
        if current:
            self._stored = dict(found)
            self._beyond = {
                account_id: ours
                for account_id, ours in self._beyond.items()
                if ours > found.get(account_id, ours)
            }

    def behind(self) -> dict[AccountId, tuple[int, int]]:
        """What the database has, and what it should have, where ours is later."""
        return {one: (self._stored[one], ours) for one, ours in self._beyond.items()}

    def caught_up(self, account_id: AccountId, not_before: int) -> None:
        """The database has what ``behind`` said."""
        if self._beyond.get(account_id) == not_before:
            del self._beyond[account_id]
            self._stored[account_id] = not_before
