"""A cache of usernames, because each party poll shows the names of all members.

A process that changes a name notifies all other processes (``Renamed``). A process that gets no
notification shows the old name for at most ``MAX_AGE_S`` seconds.
"""

from collections.abc import Callable, Iterable, Mapping

from attrs import define, field
from cachetools import TTLCache

from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import Renamed

MAX_AGE_S = 60.0
MOST = 16_384  # accounts


@define
class KnownNames:
    """The cache; it holds an account's name for at most ``MAX_AGE_S`` seconds."""

    wall_clock: Callable[[], float]
    changes: int = field(default=0, init=False)  # how often names were dropped
    _names: TTLCache[AccountId, str] = field(init=False, repr=False)

    @_names.default
    def _nobody(self) -> TTLCache[AccountId, str]:
        return TTLCache(MOST, MAX_AGE_S, self.wall_clock)

    def among(self, account_ids: Iterable[AccountId]) -> dict[AccountId, str]:
        """Return a dict from account id to name for the accounts whose name is cached.

        The caller must read the missing names from the database.
        """
        names = ((account_id, self._names.get(account_id)) for account_id in account_ids)
        return {account_id: name for account_id, name in names if name is not None}

    def keep(self, names: Mapping[AccountId, str], changes: int) -> None:
        """Cache ``names``, unless any name was dropped since they were read.

        ``changes`` is the value that ``self.changes`` had before the read.
        """
        if changes == self.changes:
            self._names.update(names)

    def forget_renamed(self, news: Renamed) -> None:
        """Drop the name of a renamed account from the cache."""
        self.forget(news.account_id)

    def forget(self, account_id: AccountId) -> None:
        """Drop the name of an account that may have been deleted or renamed."""
        self.changes += 1
        self._names.pop(account_id, None)

    def forget_all(self) -> None:
        """Drop all names, because this process may have missed a notification."""
        self.changes += 1
        self._names.clear()
