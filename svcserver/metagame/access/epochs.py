"""The time since which tokens of each account are valid; moving it ends sessions early.

Kept in memory, since every request needs it; ``accounts/sessions.py`` fills it and keeps it
up to date with the database.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field, frozen
from cachetools import LRUCache

from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import SessionsEnded, Signal

MAX_SIGNED = 16_384  # accounts whose last token is remembered


@frozen
class EpochMoved:
    """News of a commit: tokens of the account from before ``not_before`` (seconds) are void.

    Every process hears of it at once; one that missed it reads the database.
    """

    account_id: AccountId
    not_before: int


@define
class Epochs:
    """Epoch seconds by account; an account that is missing has never ended a session.

    The process that ends sessions may have a clock behind ours. So a token that was signed here
    before we learned of the new epoch is void, whatever its ``iat``.

    ``ended`` is sent whenever an account's epoch moves on.
    """

    ended: Signal[SessionsEnded] = field(factory=Signal)
    learned: int = field(default=0, init=False)  # how often ``learn`` has moved an epoch
    max_signed: int = MAX_SIGNED
    _stored: dict[AccountId, int] = field(factory=dict, init=False)  # as the database has it
    _beyond: dict[AccountId, int] = field(factory=dict, init=False)  # ours, where it is later
    _correcting: dict[AccountId, int] = field(factory=dict, init=False)  # being stored by us
    _signed: LRUCache[AccountId, int] = field(init=False)  # ``iat`` of the last token
    _signed_others: int = field(default=0, init=False)  # the latest that was dropped from it

    @_signed.default
    def _nobody(self) -> LRUCache[AccountId, int]:
        return LRUCache(self.max_signed)

    def not_before(self, account_id: AccountId) -> int:
        """Return the account's epoch: tokens issued earlier (epoch seconds) are refused."""
        return self._beyond.get(account_id) or self._stored.get(account_id, 0)

    def signed(self, account_id: AccountId, issued_at: int) -> None:
        """Record that a token with this ``iat`` was signed here."""
        if account_id not in self._signed and len(self._signed) >= self.max_signed:
            _, forgotten = self._signed.popitem()
            self._signed_others = max(self._signed_others, forgotten)
        self._signed[account_id] = max(issued_at, self._signed.get(account_id, 0))

    def on_moved(self, moved: EpochMoved) -> None:
        """Learn of a commit, ours or another process's."""
        self.learn(moved.account_id, moved.not_before)

    def learn(self, account_id: AccountId, not_before: int) -> bool:
        """Take an epoch that a transaction has stored or read; False if a later one is known.

        Then what that transaction read is out of date. One that we are storing ourselves, read
        back before we know of the commit, ends nothing: tokens signed since are valid.
        """
        if not_before == self._correcting.get(account_id):
            return True
        if not_before > self._stored.get(account_id, 0):
            self.learned += 1
            last = self._signed.get(account_id, self._signed_others)
            self._stored[account_id] = not_before
            ours = max(last + 1, self._beyond.pop(account_id, 0))
            if ours > not_before:
                self._beyond[account_id] = ours
            self.ended.send(SessionsEnded(account_id, self.not_before(account_id)))
        return not_before >= self._stored.get(account_id, 0)

    def load(self, epochs: Mapping[AccountId, int], learned: int) -> None:
        """Take all epochs of the database; ``learned`` is its value from before the read.

        Where one was learned meanwhile, the read may be older, so nothing is removed by it.
        """
        current = learned == self.learned
        for account_id, not_before in epochs.items():
            self.learn(account_id, not_before)
        if current:
            self._stored = dict(epochs)
            self._beyond = {
                account_id: ours
                for account_id, ours in self._beyond.items()
                if ours > epochs.get(account_id, ours)
            }

    def behind(self) -> dict[AccountId, tuple[int, int]]:
        """Return the accounts whose epoch here is later than the stored one: (stored, ours)."""
        return {
            account_id: (self._stored[account_id], ours)
            for account_id, ours in self._beyond.items()
        }

    def correcting(self, account_id: AccountId, not_before: int) -> None:
        """Note that an epoch of ``behind`` is about to be stored."""
        self._correcting[account_id] = not_before

    def corrected(self, account_id: AccountId, not_before: int, *, stored: bool) -> None:
        """Note whether it was stored; if not, another process ended sessions meanwhile."""
        self._correcting.pop(account_id, None)
        if stored and self._beyond.get(account_id) == not_before:
            del self._beyond[account_id]
            self._stored[account_id] = not_before
