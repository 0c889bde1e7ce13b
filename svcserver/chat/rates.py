"""The rate limits of sessions. Spec: 2 §8."""

from collections.abc import Callable

from svcserver.chat.settings import ChatSettings
from svcserver.kernel.rates import Rate, TokenBuckets

STANZAS = Rate(60, 30 * 60)
JOINS = Rate(30, 60)
PRESENCE_CHANGES = Rate(5, 30)

Take = Callable[[int, float], bool]


class Rates:
    """The token buckets of all sessions, by session number.

    Each method takes a token, or returns False if there is none.
    """

    def __init__(self, settings: ChatSettings) -> None:
        keys = 2 * settings.max_connections
        self.stanza = _take(TokenBuckets(STANZAS, keys))
        self.join = _take(TokenBuckets(JOINS, keys))
        self.message = _take(TokenBuckets(settings.message_rate, keys))
        self.presence = _take(TokenBuckets(PRESENCE_CHANGES, keys))


def _take(buckets: TokenBuckets) -> Take:
    return lambda number, now: buckets.take(str(number), now) == 0.0
