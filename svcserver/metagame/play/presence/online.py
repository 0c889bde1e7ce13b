"""Who is online: a player is for 90 s after the last heartbeat. In memory.

A plain object that takes ``now``; what is too old is recognised when it is read.
Spec: 1 §4 Status, heartbeat, fixed replies; 2 §4 Server status rules.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from attrs import define, field, frozen

from svcserver.kernel.ids import AccountId

ONLINE_S = 90.0
MAX_PLAYERS = 100_000


@frozen
class Beat:
    """The last heartbeat of a player: map path and state word as sent, and when."""

    account_id: AccountId
    map: str
    state: str
    at: float


class Online(Protocol):
    """What the rest of the metagame asks; a shared store can stand behind it later."""

    def hear(self, account_id: AccountId, map_path: str, state: str, now: float) -> None: ...

    def forget(self, account_id: AccountId) -> None: ...

    def last(self, account_id: AccountId, now: float) -> Beat | None: ...

    def all(self, now: float) -> list[Beat]: ...

    def count(self, now: float) -> int: ...


@define
class OnlineInMemory:
    """The Online of a single metagame process; the oldest beats stand first."""

    _beats: OrderedDict[AccountId, Beat] = field(factory=OrderedDict, init=False)

    def hear(self, account_id: AccountId, map_path: str, state: str, now: float) -> None:
        """Keep a heartbeat."""
        self._beats[account_id] = Beat(account_id, map_path, state, now)
        self._beats.move_to_end(account_id)
        self._forget(now)

    def forget(self, account_id: AccountId) -> None:
        """The player is no longer online."""
        self._beats.pop(account_id, None)

    def last(self, account_id: AccountId, now: float) -> Beat | None:
        """The player's last beat while it counts."""
        beat = self._beats.get(account_id)
        return beat if beat is not None and now - beat.at < ONLINE_S else None

    def all(self, now: float) -> list[Beat]:
        """Everyone online."""
        self._forget(now)
        return list(self._beats.values())

    def count(self, now: float) -> int:
        """How many are online."""
        self._forget(now)
        return len(self._beats)

    def _forget(self, now: float) -> None:
        while self._beats:
            oldest = next(iter(self._beats.values()))
            if now - oldest.at < ONLINE_S and len(self._beats) <= MAX_PLAYERS:
                return
            del self._beats[oldest.account_id]
