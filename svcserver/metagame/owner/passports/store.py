"""The database queries for passports, trusted hosts and the record of imports."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.tables import METADATA
from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.store import ACCOUNTS, SqlAccounts
from svcserver.metagame.achievements.entitlements.feature import SqlEntitlements
from svcserver.metagame.achievements.progression.rules import Path
from svcserver.metagame.achievements.progression.store import SqlProgress
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.belongings.savehistory.feature import SqlHistories
from svcserver.metagame.owner.passports import rules
from svcserver.metagame.owner.passports.belongings import carried
from svcserver.metagame.owner.passports.hunts import latest
from svcserver.metagame.owner.titles import Titles
from svcserver.metagame.social.friends.store import SqlFriends
from svcserver.metagame.social.guilds.store import SqlGuilds

SHOWN_SAVES = 10  # per character
HOSTS = sa.Table(
    "passport_hosts",
    METADATA,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("trusted_at", sa.BigInteger, nullable=False),  # epoch milliseconds
)
IMPORTS = sa.Table(
    "passport_imports",
    METADATA,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("subject", sa.String(64), primary_key=True),
    sa.Column("account_id", sa.String(64), nullable=False),
    sa.Column("imported_at", sa.BigInteger, nullable=False),
)
_TRUSTED = sa.select(HOSTS.c.name).where(HOSTS.c.key == sa.bindparam("wanted"))
_ALL_TRUSTED = (
    sa.select(HOSTS.c.key, HOSTS.c.name, HOSTS.c.trusted_at, sa.func.count(IMPORTS.c.subject))
    .select_from(HOSTS.outerjoin(IMPORTS, IMPORTS.c.key == HOSTS.c.key))
    .group_by(HOSTS.c.key, HOSTS.c.name, HOSTS.c.trusted_at)
    .order_by(HOSTS.c.trusted_at.desc(), HOSTS.c.key)
)
_DISTRUST = sa.delete(HOSTS).where(HOSTS.c.key == sa.bindparam("wanted"))
_TRUST = sa.insert(HOSTS)
_IMPORTED = sa.select(IMPORTS.c.account_id).where(
    IMPORTS.c.key == sa.bindparam("signer"), IMPORTS.c.subject == sa.bindparam("whose")
)
_NOTE = sa.insert(IMPORTS)
# the player may be online, so other writes of the account must wait
# (docs/contributors/transactions.md)
_LOCK = (
    sa.select(ACCOUNTS.c.id)
    .where(ACCOUNTS.c.id == sa.bindparam("account"))
    .with_for_update(key_share=True)
)
_SET_NOTES = (
    sa.update(ACCOUNTS)
    .where(ACCOUNTS.c.id == sa.bindparam("account"))
    .values(notes=sa.bindparam("wanted"))
)


@frozen
class TrustedHost:
    """Another host whose passports this host accepts."""

    signer: str  # the host's public key, 64 hexadecimal characters
    name: str
    trusted_at: int  # epoch milliseconds
    imported: int  # number of passports imported from this host


@frozen
class SqlHosts:
    """The tables of trusted hosts and of imported passports."""

    tx: sa.Connection

    def trust(self, key: str, name: str, at: float) -> None:
        """Store a trusted host under its public key; ``at`` is in epoch seconds."""
        self.distrust(key)
        self.tx.execute(_TRUST, {"key": key, "name": name, "trusted_at": round(at * 1000)})

    def distrust(self, key: str) -> None:
        """Delete a trusted host; the record of imports from it is kept."""
        self.tx.execute(_DISTRUST, {"wanted": key})

    def name(self, key: str) -> str | None:
        """Return the stored name of a trusted host, or None if the host is not trusted."""
        row = self.tx.execute(_TRUSTED, {"wanted": key}).first()
        return None if row is None else str(row.name)

    def trusted(self) -> list[TrustedHost]:
        """Return the trusted hosts, the newest first."""
        return [TrustedHost(*row) for row in self.tx.execute(_ALL_TRUSTED)]

    def is_imported(self, key: str, subject: str) -> bool:
        """Return whether a passport of this player from this host has been imported before."""
        sent = {"signer": key, "whose": subject}
        return self.tx.execute(_IMPORTED, sent).first() is not None

    def note(self, key: str, subject: str, account_id: AccountId, at: float) -> None:
        """Record a passport as imported; ``at`` is in epoch seconds."""
        note = {"key": key, "subject": subject, "account_id": account_id}
        self.tx.execute(_NOTE, {**note, "imported_at": round(at * 1000)})


def lock(tx: sa.Connection, account_id: AccountId) -> None:
    """Lock the account's row, so that the account's other writes wait for this transaction."""
    tx.execute(_LOCK, {"account": account_id})


def set_notes(tx: sa.Connection, account_id: AccountId, notes: int) -> None:
    """Set the account's stored amount of the main currency."""
    tx.execute(_SET_NOTES, {"account": account_id, "wanted": notes})


@frozen
class HunterData:
    """The queries for a player's data on this host, within one transaction."""

    tx: sa.Connection
    paths: Mapping[str, Path]
    titles: Titles

    def hunter(self, account: Account, now: float) -> dict[str, Any]:
        """Return what the launcher shows: guild, mastery, hunt pass, hunts, saves and friends."""
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
            "friends": sorted(friend.username for friend in friends.values()),
        }

    def _saves(self, me: AccountId) -> list[dict[str, Any]]:
        histories = SqlHistories(self.tx)
        characters = []
        for head in histories.heads(me, None):
            saves = histories.saves(head[0])[:SHOWN_SAVES]
            shown = [{"version": save[0], "savedAt": save[1]} for save in saves]
            characters.append({"name": head[2], "saves": shown})
        return characters

    def body(self, account: Account, host: str, now: float) -> dict[str, Any]:
        """Return the content of a passport; raises Conflict if it would be too large."""
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
        """Return each character as JSON; raises Conflict if they are too large in total."""
        characters: list[json.Fragment] = []
        size = 0
        for character in SqlCharacters(self.tx).of_account(me):
            data = json.Fragment(character.data.literal)
            raw = json.dump(
                {"name": character.name, "data": data, **carried(self.tx, character.id)}
            )
            size += len(raw)
            rules.check_fits(size)
            characters.append(json.Fragment(raw))
        return characters
