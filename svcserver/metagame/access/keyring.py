"""What the gate needs of accounts and their keys."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from svcserver.kernel.ids import AccountId
from svcserver.kernel.roles import Role


class Holder(Protocol):
    """What the gate needs of an account."""

    @property
    def id(self) -> AccountId: ...

    @property
    def username(self) -> str: ...

    @property
    def is_admin(self) -> bool: ...

    @property
    def role(self) -> Role: ...

    @property
    def banned_until(self) -> int: ...


class Opened(Protocol):
    """What a key opens of the routes of staff."""

    @property
    def account(self) -> Holder: ...

    @property
    def plays_only(self) -> bool:
        """Whether the account has another key for the dashboard."""

    @property
    def second_factor(self) -> bool:
        """Whether the key alone is not enough."""


class KeyRing(Protocol):
    """Finds the holders of keys."""

    def account_of_key(self, key: str) -> Awaitable[Holder | None]: ...

    def account_of_id(self, account_id: AccountId) -> Awaitable[Holder | None]: ...

    def staff_of_id(self, account_id: AccountId) -> Awaitable[tuple[Holder, str] | None]: ...

    def staff_of_key(self, key: str) -> Awaitable[Opened | None]: ...

    def knows_game_server(self, key: str) -> Awaitable[bool]: ...
