"""The operations that show, sign and import a player's data."""

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
from svcserver.metagame.accounts.audit import Act, Trace
from svcserver.metagame.accounts.data import AccountData
from svcserver.metagame.accounts.rules import Account, EndedSessions, end_sessions
from svcserver.metagame.accounts.sessions import Sessions
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.achievements.progression.rules import Path
from svcserver.metagame.achievements.progression.store import SqlProgress, configured_paths
from svcserver.metagame.belongings.characters.rules import MAX_CHARACTERS
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.owner.passports import rules, wire
from svcserver.metagame.owner.passports.belongings import REASON, Import
from svcserver.metagame.owner.passports.rules import Passport, Taken, Terms
from svcserver.metagame.owner.passports.store import HunterData, SqlHosts, lock, set_notes
from svcserver.metagame.owner.titles import Titles
from svcserver.metagame.settings import MetagameSettings

log = Logger()


@frozen
class PassportActs:
    """The operations of players on their own data: show it, export a passport, replace the key."""

    data: AccountData
    paths: Mapping[str, Path]
    titles: Titles
    wall_clock: Callable[[], float]
    host: str  # the server's name
    sessions: Sessions
    key: Ed25519PrivateKey | None = field(repr=False)  # None if this host cannot sign

    @classmethod
    def with_passport_key(
        cls,
        settings: MetagameSettings,
        data: AccountData,
        private: RSAPrivateKey | None,
        sessions: Sessions,
        wall_clock: Callable[[], float],
    ) -> PassportActs:
        """Return the operations.

        ``private`` is the key that signs tokens; the key that signs passports is derived from it.
        """
        paths = configured_paths(settings.progression_config_dir, settings.active_hunt_pass)
        key = None if private is None else rules.signing_key(private)
        return cls(data, paths, Titles.load(), wall_clock, settings.server_name, sessions, key)

    async def hunter(self, account_id: AccountId) -> dict[str, Any]:
        """Return the account's guild, mastery, hunt pass, latest hunts, saves and friends."""

        def work(tx: Connection) -> dict[str, Any]:
            return HunterData(tx, self.paths, self.titles).hunter(
                _account(tx, account_id), self.wall_clock()
            )

        return await self.data.read_for_account(account_id, work)

    @shielded
    async def new_key(self, account_id: AccountId, key: str) -> None:
        """Replace the account's key by ``key`` and end the account's sessions.

        Raises Conflict if any account already has this key.
        """

        def work(tx: Connection) -> EndedSessions:
            accounts = SqlAccounts(tx)
            if accounts.by_key(key) is not None:
                raise Conflict("this key is in use")
            accounts.replace_key(account_id, key)
            return end_sessions(accounts, account_id, self.wall_clock())

        written = self.data.ledger.write(work, OneAccount(account_id))
        await self.sessions.publish(await written)
        log.info("{account} has renewed its key", account=account_id)

    async def passport(self, account_id: AccountId) -> wire.PassportReply:
        """Return the player's data, signed; raises Unavailable if the host has no signing key."""
        key = self.key
        if key is None:
            raise Unavailable("this host has no signing key")

        def work(tx: Connection) -> wire.PassportReply:
            data = HunterData(tx, self.paths, self.titles)
            body = data.body(_account(tx, account_id), self.host, self.wall_clock())
            return wire.seal(body, key)  # in the thread: may be megabytes

        return await self.data.read_for_account(account_id, work)


def _account(tx: Connection, account_id: AccountId) -> Account:
    account = SqlAccounts(tx).find(account_id)
    if account is None:
        raise Missing("no such account", code="not_found")
    return account


def trust(key: str, name: str, wall_clock: Callable[[], float]) -> Act[None]:
    """Return the action that makes this host accept another host's passports."""

    def act(tx: Connection, trace: Trace) -> None:
        SqlHosts(tx).trust(key, name, wall_clock())
        trace.after = {"name": name}

    return act


def distrust(key: str) -> Act[str]:
    """Return the action that ends the trust in a host; the action returns the host's stored name.

    Imported data and the record of imports are kept, so that no passport is imported twice. The
    action raises Missing for an unknown host.
    """

    def act(tx: Connection, trace: Trace) -> str:
        name = SqlHosts(tx).name(key)
        if name is None:
            raise Missing("no trusted host has that key. List them with svcctl passport trusted")
        SqlHosts(tx).distrust(key)
        trace.before = {"name": name}
        return name

    return act


def take_in(
    passport: Passport,
    name: str,
    paths: Mapping[str, Path],
    terms: Terms,
    wall_clock: Callable[[], float],
) -> Act[Taken]:
    """Return the action that imports a passport into the account ``name``.

    The action raises Missing for an unknown account, and Forbidden for an untrusted host. If a
    passport of this player was imported before, the action raises Conflict.
    """

    def act(tx: Connection, trace: Trace) -> Taken:
        at, taken = wall_clock(), Taken()
        trace.after = source = {"host": passport.host[:64], "signer": passport.signer}
        account = _recorded(tx, passport, name, at)
        _take_tracks(tx, account, passport, paths, terms, taken)
        _take_characters(tx, account, passport, Import(tx, account.id, terms, taken, at))
        _take_notes(tx, account, passport, terms, taken)
        if passport.entitlements:
            taken.left_out.append(
                f"{passport.entitlements} entitlements, which every host grants itself"
            )
        trace.target = account.username
        trace.after = {
            **source,
            "tracks": taken.tracks,
            "characters": taken.characters,
            "items": taken.items,
            "currencies": taken.currencies,
            "loadouts": taken.loadouts,
        }
        return taken

    return act


def _recorded(tx: Connection, passport: Passport, name: str, at: float) -> Account:
    """Record the passport as imported, and return the account that receives its data."""
    account = SqlAccounts(tx).named(name) or SqlAccounts(tx).find(name)
    if account is None:
        raise Missing(f"no account is called {name}")
    lock(tx, account.id)
    hosts, key, subject = SqlHosts(tx), passport.signer, passport.subject
    rules.check_importable(
        passport, trusted=hosts.name(key) is not None, before=hosts.is_imported(key, subject)
    )
    hosts.note(key, subject, account.id, at)
    return account


def _take_tracks(
    tx: Connection,
    account: Account,
    passport: Passport,
    paths: Mapping[str, Path],
    terms: Terms,
    taken: Taken,
) -> None:
    if not terms.takes("progress"):
        if passport.tracks:
            taken.left_out.append(f"{len(passport.tracks)} tracks, which this host does not import")
        return
    raised, left_out = rules.new_tracks(passport, SqlProgress(tx).tracks(account.id), paths)
    SqlProgress(tx).put_tracks(account.id, raised)
    taken.tracks = len(raised)
    taken.left_out += left_out


def _take_notes(
    tx: Connection, account: Account, passport: Passport, terms: Terms, taken: Taken
) -> None:
    """Increase the account's balance in the main currency to the balance in the passport.

    A balance that is already higher stays unchanged.
    """
    if passport.notes <= account.notes:
        return
    if not terms.takes("currency"):
        taken.left_out.append("the main currency, which this host does not import")
        return
    set_notes(tx, account.id, passport.notes)
    taken.currencies += 1


def _take_characters(tx: Connection, account: Account, passport: Passport, into: Import) -> None:
    """Store each character in the passport as the newest save of one of the account's characters.

    Older saves are kept. The account's character also receives the belongings in the passport.
    """
    store, terms, taken = SqlCharacters(tx), into.terms, into.taken
    documents, left_out = rules.documents(passport, terms.document_bytes, MAX_CHARACTERS)
    taken.left_out += left_out
    own = store.all_of(account.id, account.username, into.at)
    if not terms.takes("characters") and documents:
        taken.left_out.append(f"{len(documents)} characters, which this host does not import")
    for number, (carried_by, document) in enumerate(documents):
        if terms.takes("characters"):
            if number >= len(own):
                own.append(store.create(account.id, account.username, into.at))
            store.make_newest(own[number], document, into.at, REASON)
            taken.characters += 1
        if number < len(own):
            into.take(own[number].id, carried_by.name[:32], carried_by)
        else:
            taken.left_out.append(
                f"what {carried_by.name[:32]} carries: this account has no character for it"
            )
