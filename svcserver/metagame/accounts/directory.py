"""Look-ups of accounts and keys for the gate and for other features.

Changes that another process (``svcctl``) makes to the database take effect within a second. A valid
game-server key is cached for one second. Names, which only metagames change, are cached longer
(``names.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from attrs import define, evolve, field
from cachetools import TTLCache
from sqlalchemy import Connection
from twisted.internet.defer import Deferred, succeed

from svcserver.db.ledger import Ledger
from svcserver.kernel.ids import AccountId
from svcserver.kernel.secrets import fingerprint
from svcserver.metagame.access.keyring import StaffKey
from svcserver.metagame.accounts.dashboard_access import SqlDashboardAccess
from svcserver.metagame.accounts.names import KnownNames
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.sanctions import SanctionKind, SqlSanctions
from svcserver.metagame.accounts.store import SqlAccounts, knows_game_server

REMEMBER_S = 1.0
MAX_REMEMBERED = 64


class LaunchedServers(Protocol):
    """The interface for checking the key that a launched game server received."""

    def knows(self, key: str) -> Deferred[bool]: ...


@define
class Directory:
    """Finds accounts.

    If ``by_id`` is true (AUTH_MODE=NONE), a key is taken as the account id.
    """

    ledger: Ledger
    wall_clock: Callable[[], float]
    launched: LaunchedServers
    by_id: bool = False
    known: KnownNames = field(init=False)
    _game_servers: TTLCache[str, bool] = field(init=False, repr=False)

    @_game_servers.default
    def _nothing(self) -> TTLCache[str, bool]:
        return TTLCache(MAX_REMEMBERED, REMEMBER_S, self.wall_clock)

    @known.default
    def _no_names(self) -> KnownNames:
        return KnownNames(self.wall_clock)

    def account_of_key(self, key: str) -> Deferred[Account | None]:
        """Return the account with this key, or None.

        If ``self.by_id`` is true, ``key`` is taken as an account id.
        """
        if self.by_id:
            return self.account_of_id(key)
        return self.ledger.read_snapshot(lambda tx: SqlAccounts(tx).by_key(key))

    def account_of_id(self, account_id: AccountId) -> Deferred[Account | None]:
        return self.ledger.read_snapshot(lambda tx: SqlAccounts(tx).find(account_id))

    def staff_of_id(self, account_id: AccountId) -> Deferred[tuple[Account, str] | None]:
        """Return the account (with its ban) and a hash of its dashboard credentials, or None.

        The gate checks the ban, and compares this hash with the hash from the session's sign-in.
        """

        def work(tx: Connection) -> tuple[Account, str] | None:
            account = SqlAccounts(tx).find(account_id)
            if account is None:
                return None
            return _with_ban(tx, account), SqlDashboardAccess(tx).of_account(account_id).mark

        return self.ledger.read_snapshot(work)

    def staff_of_key(self, key: str) -> Deferred[StaffKey | None]:
        """Return the account with this account key or dashboard key, and the key's limits."""
        by_id = self.by_id

        def work(tx: Connection) -> StaffKey | None:
            accounts, access = SqlAccounts(tx), SqlDashboardAccess(tx)
            own = accounts.find(key) if by_id else accounts.by_key(key)
            if own is not None:
                has = access.of_account(own.id)
                return StaffKey(own, has.key_hash is not None, has.factor is not None)
            dashboard = access.by_key(key)
            account = None if dashboard is None else accounts.find(dashboard.account_id)
            if dashboard is None or account is None:
                return None
            return StaffKey(_with_ban(tx, account), False, dashboard.factor is not None)

        return self.ledger.read_snapshot(work)

    def is_banned(self, account_id: AccountId) -> Deferred[bool]:
        """Return whether the account is banned from logging in."""

        def work(tx: Connection) -> bool:
            ban = SqlSanctions(tx).find(account_id, SanctionKind.BAN)
            return ban is not None and ban.holds(self.wall_clock())

        return self.ledger.read_snapshot(work)

    def account_named(self, username: str) -> Deferred[Account | None]:
        """Return the account with that name, ignoring case."""
        return self.ledger.read_snapshot(lambda tx: SqlAccounts(tx).named(username))

    def accounts(self, account_ids: Iterable[str]) -> Deferred[dict[AccountId, Account]]:
        """Return the existing accounts among these ids."""
        wanted = list(account_ids)
        return self.ledger.read_snapshot(lambda tx: SqlAccounts(tx).find_all(wanted))

    def names(self, account_ids: Iterable[AccountId]) -> Deferred[dict[AccountId, str]]:
        """Return the usernames of the existing accounts among these ids."""
        ids, changes = list(account_ids), self.known.changes
        known = self.known.among(ids)
        missing = [account_id for account_id in ids if account_id not in known]
        if not missing:
            return succeed(known)

        def keep(accounts: dict[AccountId, Account]) -> dict[AccountId, str]:
            names = {account_id: account.username for account_id, account in accounts.items()}
            self.known.keep(names, changes)
            return known | names

        return self.accounts(missing).addCallback(keep)

    def knows_game_server(self, key: str) -> Deferred[bool]:
        """Return whether the key is registered or belongs to a running game server."""
        hashed = fingerprint(key)
        if hashed in self._game_servers:
            return succeed(True)
        return Deferred.fromCoroutine(self._look_up(key, hashed))

    async def _look_up(self, key: str, hashed: str) -> bool:
        known = await self.ledger.read_snapshot(lambda tx: knows_game_server(tx, key))
        if not known:
            known = await self.launched.knows(key)
        if known:
            self._game_servers[hashed] = True
        return known


def _with_ban(tx: Connection, account: Account) -> Account:
    ban = SqlSanctions(tx).find(account.id, SanctionKind.BAN)
    return evolve(account, banned_until=0 if ban is None else ban.ends_at)


async def id_of(ledger: Ledger, who: str) -> AccountId:
    """Return the id of the account with this name or id, or "" if there is none.

    A rename can make the result out of date. So use it only to choose the account that a write
    locks, and look up the account again in that write.
    """
    account = await ledger.read_snapshot(
        lambda tx: SqlAccounts(tx).named(who) or SqlAccounts(tx).find(who)
    )
    return "" if account is None else account.id
