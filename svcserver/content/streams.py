"""Limits on concurrent downloads: per account and in total. Spec: 2 §8 Content streams."""

from __future__ import annotations

from collections import Counter

from attrs import define, field

from svcserver.kernel.refusals import TooMany, Unavailable

ACCOUNT_RETRY_S = 2
TOTAL_RETRY_S = 10


@define
class DownloadSlots:
    """The running downloads; the limits are CONTENT_MAX_STREAMS_*."""

    per_account: int = 6
    total: int = 48
    _running: Counter[str] = field(factory=Counter, init=False)
    _all: int = field(default=0, init=False)

    def take(self, account: str) -> DownloadSlot:
        """Return a slot, to be released once; raises TooMany or Unavailable."""
        if self._running[account] >= self.per_account:
            raise TooMany(code="too_many_streams", retry_after_s=ACCOUNT_RETRY_S)
        if self._all >= self.total:
            raise Unavailable(code="server_busy", retry_after_s=TOTAL_RETRY_S)
        self._running[account] += 1
        self._all += 1
        return DownloadSlot(self, account)

    def running(self, account: str | None = None) -> int:
        """Return the number of running downloads, of one account or of all."""
        return self._all if account is None else self._running.get(account, 0)

    def free(self, account: str) -> None:
        self._all -= 1
        self._running[account] -= 1
        if self._running[account] <= 0:
            del self._running[account]


@define
class DownloadSlot:
    """A running download, which counts against the limits until it is released."""

    _slots: DownloadSlots
    _account: str
    _taken: bool = field(default=True, init=False)

    def release(self) -> None:
        """Give the slot back; a second call does nothing."""
        if self._taken:
            self._taken = False
            self._slots.free(self._account)
