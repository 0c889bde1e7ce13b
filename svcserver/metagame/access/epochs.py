"""The token epochs: tokens that were issued before their account's epoch are invalid.

Setting an account's epoch to a later time ends its sessions. Epochs are kept in memory, because
every request needs them. ``accounts/sessions.py`` loads the epochs and keeps them up to date with
the database.
"""

from collections.abc import Mapping

from attrs import define, field, frozen
from cachetools import LRUCache

from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import SessionsEnded, Signal

MAX_SIGNED = 16_384  # accounts whose last token is remembered


@frozen
class EpochMoved:
    """The event that invalidates an account's tokens issued before ``not_before`` (Unix seconds).

    Every process receives the event after the new epoch has been committed to the database. If a
    process misses an event, it reads the epoch from the database.
    """

    account_id: AccountId
    not_before: int


@define
class Epochs:
    """The token epoch (Unix seconds) of each account whose sessions were ended at least once.

    A process that learns a new epoch refuses every token that it has already signed for the
    account, even if the processes' clocks differ.

    The signal ``ended`` is sent whenever an account's epoch becomes later.
    """

    ended: Signal[SessionsEnded] = field(factory=Signal)
    learned: int = field(default=0, init=False)  # how often ``learn`` has stored a later epoch
    max_signed: int = MAX_SIGNED
    _stored: dict[AccountId, int] = field(factory=dict, init=False)  # the epochs in the database
    _beyond: dict[AccountId, int] = field(factory=dict, init=False)  # local epochs that are later
    _correcting: dict[AccountId, int] = field(factory=dict, init=False)  # see ``correcting``
    _signed: LRUCache[AccountId, int] = field(init=False)  # ``iat`` of the last token
    _signed_others: int = field(default=0, init=False)  # latest ``iat`` dropped from ``_signed``

    @_signed.default
    def _nobody(self) -> LRUCache[AccountId, int]:
        return LRUCache(self.max_signed)

    def not_before(self, account_id: AccountId) -> int:
        """Return the account's epoch (Unix seconds); tokens issued earlier are refused."""
        return self._beyond.get(account_id) or self._stored.get(account_id, 0)

    def signed(self, account_id: AccountId, issued_at: int) -> None:
        """Record that this process signed a token with this ``iat``."""
        if account_id not in self._signed and len(self._signed) >= self.max_signed:
            _, forgotten = self._signed.popitem()
            self._signed_others = max(self._signed_others, forgotten)
        self._signed[account_id] = max(issued_at, self._signed.get(account_id, 0))

    def on_moved(self, moved: EpochMoved) -> None:
        """Store the epoch in ``moved``."""
        self.learn(moved.account_id, moved.not_before)

    def learn(self, account_id: AccountId, not_before: int) -> bool:
        """Store ``not_before`` as the account's epoch; return False if a later epoch is stored.

        If this process itself is writing the epoch to the database (see ``correcting``), the method
        does nothing and returns True.
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
        """Store the epochs that were read from the database; keep local epochs that are later.

        ``learned`` is the value that ``self.learned`` had before the database was read. If
        ``self.learned`` has not changed since, accounts that are not in ``epochs`` are dropped.
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
        """Return a dict of the accounts whose local epoch is later than the stored epoch.

        The keys are account ids; the values are pairs of the stored epoch and the local epoch.
        """
        return {
            account_id: (self._stored[account_id], ours)
            for account_id, ours in self._beyond.items()
        }

    def correcting(self, account_id: AccountId, not_before: int) -> None:
        """Make ``learn`` ignore the epoch ``not_before``, because this process is storing it."""
        self._correcting[account_id] = not_before

    def corrected(self, account_id: AccountId, not_before: int, *, stored: bool) -> None:
        """Record that the attempt to write an epoch (see ``correcting``) has ended.

        ``stored`` is True if this process has written the epoch, and False if another process
        changed the epoch meanwhile.
        """
        self._correcting.pop(account_id, None)
        if stored and self._beyond.get(account_id) == not_before:
            del self._beyond[account_id]
            self._stored[account_id] = not_before
