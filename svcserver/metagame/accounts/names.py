"""A cache of usernames, which every poll of a party shows for its members.

They hardly ever change, and who changes one tells every process (``Renamed``), so they are kept
here. A read that was under way while one changed is not kept. Whoever writes to the database
without telling is believed within ``KEPT_S``, as is who missed some news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import define, field
from cachetools import TTLCache

from svcserver.kernel.ids import AccountId
from svcserver.kernel.signals import Renamed

MAX_AGE_S = 60.0
MOST = 16_384  # accounts


@define
class KnownNames:
    """Names by account, each for at most ``MAX_AGE_S`` seconds."""

    wall_clock: Callable[[], float]
    changes: int = field(default=0, init=False)  # how often something here stopped being true
    _names: TTLCache[AccountId, str] = field(init=False, repr=False)

    @_names.default
    def _nobody(self) -> TTLCache[AccountId, str]:
        return TTLCache(MOST, MAX_AGE_S, self.wall_clock)

    def among(self, account_ids: Iterable[AccountId]) -> dict[AccountId, str]:
        """Return the known names of these ids; others must be read."""
        names = ((account_id, self._names.get(account_id)) for account_id in account_ids)
        return {account_id: name for account_id, name in names if name is not None}

    def keep(self, names: Mapping[AccountId, str], changes: int) -> None:
        """Store the names that were read; ``changes`` is the count from before the read."""
        if changes == self.changes:
            self._names.update(names)

    def forget_renamed(self, news: Renamed) -> None:
        """Forget the name of a renamed account."""
        self.forget(news.account_id)

    def forget(self, account_id: AccountId) -> None:
        """Forget an account that may be deleted or renamed."""
        self.changes += 1
        self._names.pop(account_id, None)

    def forget_all(self) -> None:
        """Forget all names, after news may have been missed."""
        self.changes += 1
        self._names.clear()
