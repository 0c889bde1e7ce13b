"""What memory knows of those who want to found a guild. Spec: 1 §4 Guilds, Create."""

from __future__ import annotations

from collections import deque

from attrs import define, field
from cachetools import LRUCache

from svcserver.kernel.ids import AccountId

VALID_S = 900.0
MAX_PAIRS = 5
ACTIVE_S = 60.0
MAX_PLAYERS = 65_536


@define
class Validated:
    """The last five pairs of name and nameplate each player has had checked, for 15 minutes."""

    max_players: int = MAX_PLAYERS
    _pairs: LRUCache[AccountId, deque[tuple[float, str, str]]] = field(init=False)

    @_pairs.default
    def _nothing(self) -> LRUCache[AccountId, deque[tuple[float, str, str]]]:
        return LRUCache(self.max_players)

    def note(self, account_id: AccountId, name: str, nameplate: str, now: float) -> None:
        """The rules allowed this pair."""
        pairs = self._pairs.setdefault(account_id, deque(maxlen=MAX_PAIRS))
        pairs.append((now, name.lower(), nameplate.lower()))

    def holds(self, account_id: AccountId, name: str, plate: str | None, now: float) -> bool:
        """Whether this very pair was checked lately, ignoring case."""
        wanted = (name.lower(), (plate or "").lower())
        return any(pair[1:] == wanted for pair in self._fresh(account_id, now))

    def any(self, account_id: AccountId, now: float) -> bool:
        """Whether the player had any name checked lately."""
        return bool(self._fresh(account_id, now))

    def clear(self, account_id: AccountId) -> None:
        """A founded guild consumes them."""
        self._pairs.pop(account_id, None)

    def _fresh(self, account_id: AccountId, now: float) -> list[tuple[float, str, str]]:
        return [pair for pair in self._pairs.get(account_id, ()) if now - pair[0] < VALID_S]


@define
class Activity:
    """Who was heard from in the last minute; for GUILD_CREATE_ACTIVITY_FALLBACK."""

    max_players: int = MAX_PLAYERS
    _heard: LRUCache[AccountId, float] = field(init=False)

    @_heard.default
    def _nobody(self) -> LRUCache[AccountId, float]:
        return LRUCache(self.max_players)

    def hear(self, account_id: AccountId, now: float) -> None:
        """A heartbeat or a party poll."""
        self._heard[account_id] = now

    def is_active(self, account_id: AccountId, now: float) -> bool:
        """Heard from within 60 s."""
        return now - self._heard.get(account_id, now - ACTIVE_S) < ACTIVE_S
