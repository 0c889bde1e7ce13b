"""What a passport is made from, which hosts are trusted, and which passports were imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    String,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from svcserver.db.tables import METADATA
from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Forbidden, Missing
from svcserver.metagame.accounts.audit import Act, Trace
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.store import ACCOUNTS, SqlAccounts
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements
from svcserver.metagame.achievements.progression.rules import Path
from svcserver.metagame.achievements.progression.store import SqlProgress
from svcserver.metagame.belongings.characters.rules import MAX_CHARACTERS, all_of, create
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.belongings.savehistory.store import SqlHistories
from svcserver.metagame.owner.passports import rules
from svcserver.metagame.owner.passports.belongings import REASON, Import, carried
from svcserver.metagame.owner.passports.hunts import latest
from svcserver.metagame.owner.passports.rules import Passport, Taken, Terms
from svcserver.metagame.owner.titles import Titles
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.metagame.social.guilds.store import SqlGuilds

SHOWN_SAVES = 10  # of each character
HOSTS = Table(
    "passport_hosts",
    METADATA,
    Column("key", String(64), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("trusted_at", BigInteger, nullable=False),  # epoch milliseconds, as the next one
)
IMPORTS = Table(
    "passport_imports",
    METADATA,
    Column("key", String(64), primary_key=True),
    Column("subject", String(64), primary_key=True),
    Column("account_id", String(64), nullable=False),
    Column("imported_at", BigInteger, nullable=False),
)
_TRUSTED = select(HOSTS.c.name).where(HOSTS.c.key == bindparam("wanted"))
_ALL_TRUSTED = (
    select(HOSTS.c.key, HOSTS.c.name, HOSTS.c.trusted_at, func.count(IMPORTS.c.subject))
    .select_from(HOSTS.outerjoin(IMPORTS, IMPORTS.c.key == HOSTS.c.key))
    .group_by(HOSTS.c.key, HOSTS.c.name, HOSTS.c.trusted_at)
    .order_by(HOSTS.c.trusted_at.desc(), HOSTS.c.key)
)
_DISTRUST = delete(HOSTS).where(HOSTS.c.key == bindparam("wanted"))
_TRUST = insert(HOSTS)
_IMPORTED = select(IMPORTS.c.account_id).where(
    IMPORTS.c.key == bindparam("signer"), IMPORTS.c.subject == bindparam("whose")
)
_NOTE = insert(IMPORTS)
# as acts of one account are kept apart (docs/contributors/transactions.md): they may be playing
_LOCK = (
    select(ACCOUNTS.c.id)
    .where(ACCOUNTS.c.id == bindparam("account"))
    .with_for_update(key_share=True)
)
_SET_NOTES = (
    update(ACCOUNTS).where(ACCOUNTS.c.id == bindparam("account")).values(notes=bindparam("wanted"))
)


def trust(key: str, name: str, now: Callable[[], float]) -> Act[None]:
    """The act of trusting a host's passports."""

    def act(tx: Connection, trace: Trace) -> None:
        tx.execute(_DISTRUST, {"wanted": key})
        tx.execute(_TRUST, {"key": key, "name": name, "trusted_at": round(now() * 1000)})
        trace.after = {"name": name}

    return act


def distrust(key: str) -> Act[str]:
    """The act of trusting a host's passports no more; gives the name it was kept under.

    What players have brought along stays theirs, and stays noted: it never counts twice. Raises
    Missing.
    """

    def act(tx: Connection, trace: Trace) -> str:
        found = tx.execute(_TRUSTED, {"wanted": key}).first()
        if found is None:
            raise Missing("no host of that key is trusted; see svcctl passport trusted")
        tx.execute(_DISTRUST, {"wanted": key})
        name: str = found.name
        trace.before = {"name": name}
        return name

    return act


@frozen
class TrustedHost:
    """Another host whose passports count here."""

    signer: str  # its public key, 64 hex characters
    name: str
    trusted_at: int  # epoch milliseconds
    imported: int  # passports of it


def trusted(tx: Connection) -> list[TrustedHost]:
    """Every trusted host, the latest first."""
    return [TrustedHost(*row) for row in tx.execute(_ALL_TRUSTED)]


@frozen
class HunterData:
    """What a player has here, in one transaction."""

    tx: Connection
    paths: Mapping[str, Path]
    titles: Titles

    def hunter(self, account: Account, now: float) -> dict[str, Any]:
        """For the launcher's page: guild, mastery, hunt pass, saves, friends."""
        me, progress, guilds = account.id, SqlProgress(self.tx), SqlGuilds(self.tx)
        member = guilds.member(me)
        guild = guilds.guild(member.guild_id) if member is not None else None
        friends = SqlAccounts(self.tx).find_all(SqlFriends(self.tx).friends(me))
        return {
            "username": account.username,
            "guild": guild.name if guild is not None else None,
            "huntPass": progress.hunt_pass(me),
            "tracks": [
                {"id": name, "rank": path.rank(track.progress), "maxRank": path.max_rank}
                for name, track in sorted(progress.tracks(me).items())
                if (path := self.paths.get(name)) is not None
            ],
            "entitlements": sorted(SqlEntitlements(self.tx).active(me, now)),
            "characters": self._saves(me),
            "hunts": [
                {"title": self.titles.hunt(hunt_id), "at": at}
                for hunt_id, at in latest(self.tx, me)
            ],
            "friends": sorted(one.username for one in friends.values()),
        }

    def _saves(self, me: AccountId) -> list[dict[str, Any]]:
        histories = SqlHistories(self.tx)
        found = []
        for head in histories.heads(me, None):
            saves = histories.saves(head[0])[:SHOWN_SAVES]
            shown = [{"version": one[0], "savedAt": one[1]} for one in saves]
            found.append({"name": head[2], "saves": shown})
        return found

    def body(self, account: Account, host: str, now: float) -> dict[str, Any]:
        """What stands in a passport; raises Conflict where it would be too large."""
        me = account.id
        return {
            "host": host,
            "subject": me,
            "username": account.username,
            "madeAt": round(now * 1000),
            "tracks": {
                name: track.progress for name, track in SqlProgress(self.tx).tracks(me).items()
            },
            "entitlements": sorted(SqlEntitlements(self.tx).active(me, now)),
            "characters": self._characters(me),
            "notes": account.notes,
        }

    def _characters(self, me: AccountId) -> list[json.Fragment]:
        """Each as JSON; no more are read than fit, since twenty hoards would fill the memory."""
        found: list[json.Fragment] = []
        left = rules.MAX_BODY
        for one in SqlCharacters(self.tx).of_account(me):
            data = json.Fragment(one.data.literal)
            raw = json.dump({"name": one.name, "data": data, **carried(self.tx, one.id)})
            left -= len(raw)
            if left < 0:
                raise Conflict(rules.TOO_MUCH)
            found.append(json.Fragment(raw))
        return found


def take_in(
    passport: Passport,
    name: str,
    paths: Mapping[str, Path],
    terms: Terms,
    now: Callable[[], float],
) -> Act[Taken]:
    """The act of importing a passport for the account called ``name``; once for each player.

    Raises Missing, Forbidden for a host that is not trusted, Conflict the second time.
    """

    def act(tx: Connection, trace: Trace) -> Taken:
        at, taken = now(), Taken()
        account = _noted(tx, passport, name, at)
        _take_tracks(tx, account, passport, paths, terms, taken)
        _take_characters(tx, account, passport, Import(tx, account.id, terms, taken, at))
        _take_notes(tx, account, passport, terms, taken)
        if passport.entitlements:
            taken.left_out.append(
                f"{passport.entitlements} entitlements, which each host grants by itself"
            )
        trace.target = account.username
        trace.after = {
            "tracks": taken.tracks,
            "characters": taken.characters,
            "items": taken.items,
            "currencies": taken.currencies,
            "loadouts": taken.loadouts,
        }
        return taken

    return act


def _noted(tx: Connection, passport: Passport, name: str, at: float) -> Account:
    """The account that gets it, once the passport is noted as imported."""
    account = SqlAccounts(tx).named(name) or SqlAccounts(tx).find(name)
    if account is None:
        raise Missing(f"no account is called {name}")
    tx.execute(_LOCK, {"account": account.id})
    if tx.execute(_TRUSTED, {"wanted": passport.signer}).first() is None:
        raise Forbidden(f"the host that signed it is not trusted: passport trust {passport.signer}")
    if tx.execute(_IMPORTED, {"signer": passport.signer, "whose": passport.subject}).first():
        raise Conflict(f"the passport of {passport.username} has been imported before")
    note = {"key": passport.signer, "subject": passport.subject, "account_id": account.id}
    tx.execute(_NOTE, {**note, "imported_at": round(at * 1000)})
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
            taken.left_out.append(
                f"{len(passport.tracks)} tracks, which this host takes from nobody"
            )
        return
    raised, left_out = rules.new_tracks(passport, SqlProgress(tx).tracks(account.id), paths)
    for track in raised:
        SqlProgress(tx).keep_track(account.id, track)
    taken.tracks = len(raised)
    taken.left_out += left_out


def _take_notes(
    tx: Connection, account: Account, passport: Passport, terms: Terms, taken: Taken
) -> None:
    """The account's own column of the main currency, which is not lowered."""
    if passport.notes <= account.notes:
        return
    if not terms.takes("currency"):
        taken.left_out.append("the main currency, which this host takes from nobody")
        return
    tx.execute(_SET_NOTES, {"account": account.id, "wanted": passport.notes})
    taken.currencies += 1


def _take_characters(tx: Connection, account: Account, passport: Passport, into: Import) -> None:
    """Store each document as the newest save of a character; the saves before it stay.

    What the character carries goes to the same one.
    """
    store, terms, taken = SqlCharacters(tx), into.terms, into.taken
    found, left_out = rules.documents(passport, terms.document_bytes, MAX_CHARACTERS)
    taken.left_out += left_out
    own = all_of(store, account.id, account.username, into.at)
    if not terms.takes("characters") and found:
        taken.left_out.append(f"{len(found)} characters, which this host takes from nobody")
    for number, (carried_by, document) in enumerate(found):
        if terms.takes("characters"):
            if number >= len(own):
                own.append(create(store, account.id, account.username, into.at))
            before = own[number]
            store.save(before.saved(document, before.update_version + 1, into.at), REASON)
            taken.characters += 1
        if number < len(own):
            into.take(own[number].id, carried_by.name[:32], carried_by.said)
        else:
            taken.left_out.append(
                f"what {carried_by.name[:32]} carries: there is no character for it"
            )
