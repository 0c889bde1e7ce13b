"""Reads what a player has here, and signs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import OneAccount
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Missing, Unavailable
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.accounts.rules import Account, end_sessions
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.achievements.progression.rules import Path
from svcserver.metagame.achievements.progression.store import configured_paths
from svcserver.metagame.owner.passports import rules
from svcserver.metagame.owner.passports.store import HunterData
from svcserver.metagame.owner.titles import Titles
from svcserver.metagame.settings import Settings

log = Logger()


@frozen
class PassportActs:
    """What players do with their own data: look at their hunter, take a passport, renew the key."""

    data: AccountData
    paths: Mapping[str, Path]
    titles: Titles
    now: Callable[[], float]
    host: str  # the server's name
    sessions: Sessions
    key: Ed25519PrivateKey | None = field(repr=False)  # None: this host signs nothing

    @classmethod
    def of(
        cls,
        settings: Settings,
        data: AccountData,
        private: RSAPrivateKey | None,
        sessions: Sessions,
        now: Callable[[], float],
    ) -> PassportActs:
        """With the settings' tracks, and the key that comes of the one that signs tokens."""
        paths = configured_paths(settings.progression_config_dir, settings.active_hunt_pass)
        key = None if private is None else rules.signing_key(private)
        return cls(data, paths, Titles.load(), now, settings.server_name, sessions, key)

    async def hunter(self, account_id: AccountId) -> dict[str, Any]:
        """Profile, guild, mastery, hunt pass, latest hunts and saves of the account."""

        def work(tx: Connection) -> dict[str, Any]:
            return HunterData(tx, self.paths, self.titles).hunter(
                _account(tx, account_id), self.now()
            )

        return await self.data.read(account_id, work)

    @shielded
    async def new_key(self, account_id: AccountId, key: str) -> None:
        """Make ``key`` the account's only one; whoever is logged in by the old one is out.

        Raises Conflict for a key that an account has.
        """

        def work(tx: Connection) -> int:
            accounts = SqlAccounts(tx)
            if accounts.by_key(key) is not None:
                raise Conflict("this key is taken")
            accounts.replace_key(account_id, key)
            return end_sessions(accounts, account_id, self.now())

        written = self.data.ledger.write(work, OneAccount(account_id))
        await self.sessions.tell(account_id, await written)
        log.info("{account} has renewed its key", account=account_id)

    async def passport(self, account_id: AccountId) -> dict[str, str]:
        """The player's data, signed; raises Unavailable where the host has no key."""
        key = self.key
        if key is None:
            raise Unavailable("this host has no key to sign with")

        def work(tx: Connection) -> dict[str, str]:
            data = HunterData(tx, self.paths, self.titles)
            body = data.body(_account(tx, account_id), self.host, self.now())
            return rules.seal(body, key)  # here, since it may be megabytes: not on the reactor

        return await self.data.read(account_id, work)


def _account(tx: Connection, account_id: AccountId) -> Account:
    found = SqlAccounts(tx).find(account_id)
    if found is None:
        raise Missing("no such account")
    return found
