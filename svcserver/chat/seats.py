"""Which bound sessions an account has, in whichever process. Spec: 2 §4 Chat, §5."""

from __future__ import annotations

from attrs import define, field

from svcserver.chat.events import Seat
from svcserver.kernel.ids import AccountId


@define(eq=False)
class Seats:
    """By account in any case; each with its process, the oldest first."""

    _those: dict[str, list[tuple[str, Seat]]] = field(factory=dict, init=False)

    def __len__(self) -> int:
        """How many accounts have one."""
        return len(self._those)

    def of(self, account: str) -> list[tuple[str, Seat]]:
        return list(self._those.get(account.lower(), ()))

    def has(self, worker: str, seat: Seat) -> bool:
        return any(
            (where, one.session) == (worker, seat.session) for where, one in self.of(seat.account)
        )

    def take(self, worker: str, seat: Seat) -> None:
        """Note the account's newest."""
        self._those.setdefault(seat.account.lower(), []).append((worker, seat))

    def free(self, worker: str, number: int, account: AccountId) -> None:
        """A session has none any more."""
        key = account.lower()
        left = [one for one in self.of(key) if (one[0], one[1].session) != (worker, number)]
        if left:
            self._those[key] = left
        else:
            self._those.pop(key, None)
