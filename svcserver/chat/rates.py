"""Rate limits of a session. Spec: 2 §8."""

from __future__ import annotations

from attrs import define, field

from svcserver.chat.settings import Settings
from svcserver.kernel.rates import Rate, TokenBuckets

STANZAS = Rate(60, 30 * 60)
JOINS = Rate(30, 60)
PRESENCE_CHANGES = Rate(5, 30)


@define
class Rates:
    """Token buckets for every connection, by its number; each method takes a token if it can."""

    settings: Settings
    _stanzas: TokenBuckets = field(init=False)
    _joins: TokenBuckets = field(init=False)
    _messages: TokenBuckets = field(init=False)
    _presences: TokenBuckets = field(init=False)

    def __attrs_post_init__(self) -> None:
        keys = 2 * self.settings.max_connections
        self._stanzas = TokenBuckets(STANZAS, keys)
        self._joins = TokenBuckets(JOINS, keys)
        self._messages = TokenBuckets(self.settings.message_rate, keys)
        self._presences = TokenBuckets(PRESENCE_CHANGES, keys)

    def stanza(self, number: int, now: float) -> bool:
        return self._stanzas.take(str(number), now) == 0.0

    def join(self, number: int, now: float) -> bool:
        return self._joins.take(str(number), now) == 0.0

    def message(self, number: int, now: float) -> bool:
        return self._messages.take(str(number), now) == 0.0

    def presence(self, number: int, now: float) -> bool:
        return self._presences.take(str(number), now) == 0.0
