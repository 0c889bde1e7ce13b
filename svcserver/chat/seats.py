"""The bound sessions of each account in all processes. Spec: 2 §4 Chat, §5."""

from __future__ import annotations

from attrs import define, field

from svcserver.chat.events import Seat
from svcserver.kernel.ids import AccountId


@define(eq=False)
class Seats:
    """The seats by account, in any case, each with its process, oldest first."""

    _those: dict[str, list[tuple[str, Seat]]] = field(factory=dict, init=False)

    def __len__(self) -> int:
        """Return the number of accounts with a seat."""
        return len(self._those)

    def of(self, account: str) -> list[tuple[str, Seat]]:
        return list(self._those.get(account.lower(), ()))

    def has(self, worker: str, seat: Seat) -> bool:
        return any(
            (where, taken.session) == (worker, seat.session)
            for where, taken in self.of(seat.account)
        )

    def take(self, worker: str, seat: Seat) -> None:
        """Add the account's newest seat."""
        self._those.setdefault(seat.account.lower(), []).append((worker, seat))

    def free(self, worker: str, number: int, account: AccountId) -> None:
        key = account.lower()
        left = [taken for taken in self.of(key) if (taken[0], taken[1].session) != (worker, number)]
        if left:
            self._those[key] = left
        else:
            self._those.pop(key, None)
