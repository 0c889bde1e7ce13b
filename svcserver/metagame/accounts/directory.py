"""Look-ups of accounts and keys for the gate and for other features.

Changes that others make to the database (``svcctl``) show within a second: only checks of
game-server keys are cached, for that long, and names, which only a metagame changes (``names.py``).
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
    """Checks the keys that single launches of game servers got."""

    def knows(self, key: str) -> Deferred[bool]: ...


@define
class Directory:
    """Finds accounts. ``by_id`` (AUTH_MODE=NONE): a key is taken as the account id itself."""

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
        """Whose key this is, or None; with ``by_id`` the key is the id. Never from a cache."""
        if self.by_id:
            return self.account_of_id(key)
        return self.ledger.read(lambda tx: SqlAccounts(tx).by_key(key))

    def account_of_id(self, account_id: AccountId) -> Deferred[Account | None]:
        return self.ledger.read(lambda tx: SqlAccounts(tx).find(account_id))

    def staff_of_id(self, account_id: AccountId) -> Deferred[tuple[Account, str] | None]:
        """The account whose session it is, and by which ways it opens the dashboard now.

        With its ban: a session may begin while one commits.
        """

        def work(tx: Connection) -> tuple[Account, str] | None:
            account = SqlAccounts(tx).find(account_id)
            if account is None:
                return None
            ban = SqlSanctions(tx).find(account_id, SanctionKind.BAN)
            until = 0 if ban is None else ban.ends_at
            ways = SqlDashboardAccess(tx).of(account_id).mark
            return evolve(account, banned_until=until), ways

        return self.ledger.read(work)

    def staff_of_key(self, key: str) -> Deferred[StaffKey | None]:
        """What the key opens of the routes of staff: an account's own, or one for the dashboard."""
        by_id = self.by_id

        def work(tx: Connection) -> StaffKey | None:
            accounts, access = SqlAccounts(tx), SqlDashboardAccess(tx)
            own = accounts.find(key) if by_id else accounts.by_key(key)
            if own is not None:
                has = access.of(own.id)
                return StaffKey(own, has.key_hash is not None, has.factor is not None)
            found = access.by_key(key)
            account = None if found is None else accounts.find(found.account_id)
            if found is None or account is None:
                return None
            ban = SqlSanctions(tx).find(account.id, SanctionKind.BAN)
            until = 0 if ban is None else ban.ends_at
            return StaffKey(evolve(account, banned_until=until), False, found.factor is not None)

        return self.ledger.read(work)

    def is_banned(self, account_id: AccountId) -> Deferred[bool]:
        """Whether the account may not log in now."""

        def work(tx: Connection) -> bool:
            ban = SqlSanctions(tx).find(account_id, SanctionKind.BAN)
            return ban is not None and ban.holds(self.wall_clock())

        return self.ledger.read(work)

    def account_named(self, username: str) -> Deferred[Account | None]:
        """The account of that name, in any case."""
        return self.ledger.read(lambda tx: SqlAccounts(tx).named(username))

    def accounts(self, account_ids: Iterable[str]) -> Deferred[dict[AccountId, Account]]:
        """The existing accounts among these ids."""
        wanted = list(account_ids)
        return self.ledger.read(lambda tx: SqlAccounts(tx).find_all(wanted))

    def names(self, account_ids: Iterable[AccountId]) -> Deferred[dict[AccountId, str]]:
        """The usernames of the existing accounts among these ids."""
        asked, changes = list(account_ids), self.known.changes
        known = self.known.among(asked)
        missing = [one for one in asked if one not in known]
        if not missing:
            return succeed(known)

        def keep(found: dict[AccountId, Account]) -> dict[AccountId, str]:
            names = {one: account.username for one, account in found.items()}
            self.known.keep(names, changes)
            return known | names

        return self.accounts(missing).addCallback(keep)

    def knows_game_server(self, key: str) -> Deferred[bool]:
        """Whether the game-server key is registered, or that of a running game server."""
        hashed = fingerprint(key)
        if hashed in self._game_servers:
            return succeed(True)
        return Deferred.fromCoroutine(self._look_up(key, hashed))

    async def _look_up(self, key: str, hashed: str) -> bool:
        known = await self.ledger.read(lambda tx: knows_game_server(tx, key))
        if not known:
            known = await self.launched.knows(key)
        if known:
            self._game_servers[hashed] = True
        return known


async def id_of(ledger: Ledger, who: str) -> AccountId:
    """The id of an account for the scope of an act, which looks it up again; empty for nobody."""
    found = await ledger.read(lambda tx: SqlAccounts(tx).named(who) or SqlAccounts(tx).find(who))
    return "" if found is None else found.id
