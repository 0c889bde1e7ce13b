"""Rate limits per key: token buckets with limited memory.

Each call adds the tokens due by ``now`` (in seconds of any clock), so no timer is needed.
"""

from __future__ import annotations

from attrs import define, field, frozen

from svcserver.kernel.cache import BoundedCache


@frozen
class Rate:
    """The size of a token bucket (``burst``), and how many tokens are added ``per_minute``."""

    burst: float
    per_minute: float

    @classmethod
    def parse_setting(cls, text: str) -> Rate:
        """Parse a setting of the form ``<burst>,<per minute>``; raises ValueError."""
        try:
            burst, per_minute = (float(part) for part in text.split(","))
        except ValueError:
            burst = per_minute = 0.0
        if not (1 <= burst < 1e9 and 0 < per_minute < 1e9):
            raise ValueError(
                "must be BURST,RATE, such as 20,60, with BURST at least 1 and RATE (per minute) "
                "above 0"
            )
        return cls(burst, per_minute)


@define
class TokenBuckets:
    """A token bucket for each key.

    If there are more than ``max_keys`` keys, the least recently used ones are dropped.
    """

    rate: Rate
    max_keys: int = 65_536
    _buckets: BoundedCache[str, list[float]] = field(init=False)  # the token count and its time

    @_buckets.default
    def _nothing(self) -> BoundedCache[str, list[float]]:
        return BoundedCache(self.max_keys)

    def take(self, key: str, now: float, amount: float = 1) -> float:
        """Take ``amount`` tokens and return 0.0; if there are too few, return the seconds to wait.

        If ``amount`` is above ``burst``, only ``burst`` tokens are taken.
        """
        burst, per_second = self.rate.burst, self.rate.per_minute / 60
        bucket = self._bucket(key, now)
        tokens, since = bucket
        if now > since:
            tokens += (now - since) * per_second
        if tokens > burst:
            tokens = burst
        needed = burst if amount > burst else amount
        wait = 0.0
        if tokens >= needed:
            tokens -= needed
        else:
            wait = (needed - tokens) / per_second
        bucket[0], bucket[1] = tokens, now  # changed in place, which is faster than a new list
        return wait

    def owe(self, key: str, now: float, amount: float) -> None:
        """Subtract ``amount`` tokens that another process gave out.

        The number of tokens never falls below ``-burst``.
        """
        burst = self.rate.burst
        bucket = self._bucket(key, now)
        tokens, since = bucket
        tokens += max(0.0, now - since) * self.rate.per_minute / 60
        bucket[:] = max(-burst, min(burst, tokens) - amount), max(now, since)

    def _bucket(self, key: str, now: float) -> list[float]:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = [self.rate.burst, now]
            self._buckets.put(key, bucket)
        return bucket

    def __len__(self) -> int:
        return len(self._buckets)
