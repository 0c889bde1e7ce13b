"""Sampling of log lines that a flood would multiply: some are written, the rest are counted."""

from __future__ import annotations

from attrs import define, field

from svcserver.kernel.rates import Rate, TokenBuckets

EACH = Rate(40, 60)  # lines about one address
ALL = Rate(400, 600)  # lines about all of them; ten a second fill 150 MB a day


@define
class LogSampler:
    """Decides which of many similar lines are written; the next one names the number omitted."""

    _each: TokenBuckets = field(factory=lambda: TokenBuckets(EACH, 20_000), init=False)
    _all: TokenBuckets = field(factory=lambda: TokenBuckets(ALL, 1), init=False)
    omitted: int = field(default=0, init=False)  # since it was last said

    def keeps(self, key: str, now: float) -> bool:
        """Whether the line about ``key`` is written; one that is not is counted."""
        kept = not self._each.take(key, now) and not self._all.take("", now)
        self.omitted += not kept
        return kept

    def take_omitted(self) -> int:
        """How many lines were omitted since the last call."""
        count, self.omitted = self.omitted, 0
        return count
