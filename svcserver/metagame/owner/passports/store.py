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
    insert,
    select,
)

from svcserver.db.tables import METADATA
from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Conflict, Forbidden, Missing
from svcserver.metagame.accounts.audit import Act, Trace
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.metagame.achievements.entitlements.store import SqlEntitlements
from svcserver.metagame.achievements.progression.rules import Path
from svcserver.metagame.achievements.progression.store import SqlProgress
from svcserver.metagame.belongings.characters.rules import MAX_CHARACTERS, all_of, create
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.belongings.savehistory.store import SqlHistories
from svcserver.metagame.owner.passports import rules
from svcserver.metagame.owner.passports.rules import Imported, Passport
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.metagame.social.guilds.store import SqlGuilds

REASON = "passport"
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
_DISTRUST = delete(HOSTS).where(HOSTS.c.key == bindparam("wanted"))
_TRUST = insert(HOSTS)
_IMPORTED = select(IMPORTS.c.account_id).where(
    IMPORTS.c.key == bindparam("signer"), IMPORTS.c.subject == bindparam("whose")
)
_NOTE = insert(IMPORTS)


def trust(key: str, name: str, now: Callable[[], float]) -> Act[None]:
    """The act of trusting a host's passports."""

    def act(tx: Connection, trace: Trace) -> None:
        tx.execute(_DISTRUST, {"wanted": key})
        tx.execute(_TRUST, {"key": key, "name": name, "trusted_at": round(now() * 1000)})
        trace.after = {"name": name}

    return act


@frozen
class HunterData:
    """What a player has here, in one transaction."""

    tx: Connection
    paths: Mapping[str, Path]

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
        """What stands in a passport."""
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
            "characters": [
                {"name": one.name, "data": json.Fragment(one.data.literal)}
                for one in SqlCharacters(self.tx).of_account(me)
            ],
        }


def take_in(
    passport: Passport,
    name: str,
    paths: Mapping[str, Path],
    most: int,
    now: Callable[[], float],
) -> Act[Imported]:
    """The act of importing a passport for the account called ``name``; once for each player.

    Raises Missing, Forbidden for a host that is not trusted, Conflict the second time.
    ``most``: bytes that a character's document may have here.
    """

    def act(tx: Connection, trace: Trace) -> Imported:
        at = now()
        account = SqlAccounts(tx).named(name) or SqlAccounts(tx).find(name)
        if account is None:
            raise Missing(f"no account is called {name}")
        if tx.execute(_TRUSTED, {"wanted": passport.signer}).first() is None:
            raise Forbidden(
                f"the host that signed it is not trusted: passport trust {passport.signer}"
            )
        if tx.execute(_IMPORTED, {"signer": passport.signer, "whose": passport.subject}).first():
            raise Conflict(f"the passport of {passport.username} has been imported before")
        note = {"key": passport.signer, "subject": passport.subject, "account_id": account.id}
        tx.execute(_NOTE, {**note, "imported_at": round(at * 1000)})
        raised, without = rules.new_tracks(passport, SqlProgress(tx).tracks(account.id), paths)
        for track in raised:
            SqlProgress(tx).keep_track(account.id, track)
        documents, more = rules.documents(passport, most, MAX_CHARACTERS)
        _keep_characters(tx, account, documents, at)
        if passport.entitlements:
            more.append(f"{passport.entitlements} entitlements, which each host grants by itself")
        done = Imported(len(raised), len(documents), [*without, *more])
        trace.target = account.username
        trace.after = {"tracks": done.tracks, "characters": done.characters}
        return done

    return act


def _keep_characters(tx: Connection, account: Account, documents: list[Any], at: float) -> None:
    """Store each document as the newest save of a character; the saves before it stay."""
    store = SqlCharacters(tx)
    own = all_of(store, account.id, account.username, at)
    for number, document in enumerate(documents):
        if number >= len(own):
            own.append(create(store, account.id, account.username, at))
        before = own[number]
        store.save(before.saved(document, before.update_version + 1, at), REASON)
