"""The interfaces through which the gate looks up accounts and keys."""

from collections.abc import Awaitable
from typing import Protocol

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.roles import Role


class Holder(Protocol):
    """An account that holds a key."""

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


@frozen
class StaffKey:
    """The account to which a key belongs, and the key's restrictions.

    If ``plays_only`` is true, the account has another key for the dashboard, so this key opens no
    staff route. If ``second_factor`` is true, the holder of the key must also send a code of the
    second factor.
    """

    account: Holder
    plays_only: bool
    second_factor: bool


class KeyRing(Protocol):
    """The interface through which the gate finds key holders."""

    def account_of_key(self, key: str) -> Awaitable[Holder | None]: ...

    def account_of_id(self, account_id: AccountId) -> Awaitable[Holder | None]: ...

    def staff_of_id(self, account_id: AccountId) -> Awaitable[tuple[Holder, str] | None]: ...

    def staff_of_key(self, key: str) -> Awaitable[StaffKey | None]: ...

    def knows_game_server(self, key: str) -> Awaitable[bool]: ...
