"""Usernames that are asked for again and again: every poll of a party shows those of its members.

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

KEPT_S = 60.0
MOST = 16_384  # accounts


@define
class KnownNames:
    """Names by account, each for at most ``KEPT_S`` seconds of ``now``."""

    wall_clock: Callable[[], float]
    changes: int = field(default=0, init=False)  # how often something here stopped being true
    _names: TTLCache[AccountId, str] = field(init=False, repr=False)

    @_names.default
    def _nobody(self) -> TTLCache[AccountId, str]:
        return TTLCache(MOST, KEPT_S, self.wall_clock)

    def among(self, account_ids: Iterable[AccountId]) -> dict[AccountId, str]:
        """The names of those ids that are known; others must be read."""
        found = ((one, self._names.get(one)) for one in account_ids)
        return {one: name for one, name in found if name is not None}

    def keep(self, names: Mapping[AccountId, str], changes: int) -> None:
        """Keep what was read; ``changes`` is the count from before the read."""
        if changes == self.changes:
            self._names.update(names)

    def hear(self, news: Renamed) -> None:
        """An account has another name."""
        self.forget(news.account_id)

    def forget(self, account_id: AccountId) -> None:
        """An account may be gone, or have another name."""
        self.changes += 1
        self._names.pop(account_id, None)

    def forget_all(self) -> None:
        """Some news may have been missed."""
        self.changes += 1
        self._names.clear()
