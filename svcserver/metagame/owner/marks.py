"""Change marks: short strings that change whenever a list of the dashboard may have changed.

When a mark changes, the page requests the list again. Marks are cheap enough to be computed all
the time while a page is open.
"""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.ledger import Ledger
from svcserver.kernel import json
from svcserver.kernel.ids import AccountId
from svcserver.metagame.accounts.audit import AUDIT_LOG
from svcserver.metagame.accounts.eventlog import PROGRESSION_EVENTS
from svcserver.metagame.accounts.sanctions import SANCTIONS
from svcserver.metagame.accounts.store import ACCOUNTS, INVITE_CODES, SqlAccounts
from svcserver.metagame.belongings.characters.store import CHARACTERS
from svcserver.metagame.belongings.loadouts.store import LOADOUTS
from svcserver.metagame.owner.announcements.feature import SqlAnnouncement
from svcserver.metagame.owner.people.store import ACCOUNT_SEEN
from svcserver.metagame.play.presence.rules import Place
from svcserver.metagame.social.guilds.store import SqlGuilds

EVERY_S = 2.0  # shortest time between two computations of a mark
SIZE = 8  # bytes of a mark

_NEWEST_ACT = sa.select(sa.func.max(AUDIT_LOG.c.id))
_INVITES = sa.select(
    sa.func.count(),
    sa.func.sum(INVITE_CODES.c.uses_remaining),
    sa.func.sum(INVITE_CODES.c.infinite_uses),
).select_from(INVITE_CODES)
_ACCOUNTS = sa.select(sa.func.count(), sa.func.max(ACCOUNTS.c.created_at)).select_from(ACCOUNTS)
_LAST_SEEN = sa.select(sa.func.max(ACCOUNT_SEEN.c.at))
_ACCOUNT: sa.BindParameter[str] = sa.bindparam("account")
_OF_ACCOUNT = (  # changes that the audit log lacks, such as the end of a ban
    sa.select(ACCOUNTS).where(ACCOUNTS.c.id == _ACCOUNT),
    sa.select(SANCTIONS.c.kind, SANCTIONS.c.made_at)
    .where(SANCTIONS.c.account_id == _ACCOUNT, SANCTIONS.c.ends_at > sa.bindparam("now"))
    .order_by(SANCTIONS.c.kind),
    sa.select(ACCOUNT_SEEN.c.at).where(ACCOUNT_SEEN.c.account_id == _ACCOUNT),
    sa.select(CHARACTERS.c.id, CHARACTERS.c.name, CHARACTERS.c.save_id, LOADOUTS.c.version)
    .outerjoin(LOADOUTS, LOADOUTS.c.character_id == CHARACTERS.c.id)
    .where(CHARACTERS.c.account_id == _ACCOUNT)
    .order_by(CHARACTERS.c.id),
    sa.select(sa.func.max(PROGRESSION_EVENTS.c.id)).where(
        PROGRESSION_EVENTS.c.account_id == _ACCOUNT
    ),
)

Read = Callable[[sa.Connection], Any]
Look = Callable[[], Awaitable[Any]]


@frozen
class Marks:
    """The dashboard's change marks: values that change whenever a list may have changed.

    ``where`` returns where each online player is. ``host`` maps each page about the host to a
    function that returns the page's data.
    """

    ledger: Ledger
    where: Callable[[], Awaitable[Mapping[AccountId, Place]]]
    host: Mapping[str, Look]
    wall_clock: Callable[[], float]

    def reader(self, page: str, who: str = "") -> Look | None:
        """Return the function that computes the page's mark, or None if the page has no mark.

        The mark changes whenever the page's data may have changed. Only the page "account" uses
        ``who``, an account's name or id.
        """
        reads: dict[str, Look] = {
            "audit": lambda: self.ledger.read_snapshot(_newest_act),
            "invites": lambda: self.ledger.read_snapshot(_invites),
            "guilds": lambda: self.ledger.read_snapshot(_guilds),
            "moderation": lambda: self.ledger.read_snapshot(self._moderation),
            "accounts": self._accounts,
            "account": lambda: self._account(who),
            **self.host,
        }
        read = reads.get(page)
        return None if read is None else self._paced(read)

    def _paced(self, read: Look) -> Look:
        read_at: float | None = None

        async def look() -> Any:
            nonlocal read_at
            if read_at is not None and 0 <= self.wall_clock() - read_at < EVERY_S:
                return None
            read_at = self.wall_clock()
            return {"mark": digest(await read())}

        return look

    def _moderation(self, tx: sa.Connection) -> Any:
        now = self.wall_clock()
        announcement = SqlAnnouncement(tx).get(now)
        return [
            _newest_act(tx),
            _sanctions(tx, now),
            None if announcement is None else announcement.made_at,
        ]

    async def _accounts(self) -> Any:
        def work(tx: sa.Connection) -> Any:
            last_seen = tx.execute(_LAST_SEEN).scalar()
            return [
                _newest_act(tx),
                _sanctions(tx, self.wall_clock()),
                _row(tx, _ACCOUNTS),
                last_seen,
            ]

        places = await self.where()
        return [
            await self.ledger.read_snapshot(work),
            sorted((account_id, where.value) for account_id, where in places.items()),
        ]

    async def _account(self, who: str) -> Any:
        def work(tx: sa.Connection) -> Any:
            accounts = SqlAccounts(tx)
            account = accounts.named(who) or accounts.find(who)
            if account is None:
                return "", None
            values = {"account": account.id, "now": int(self.wall_clock())}
            rows = [[[*row] for row in tx.execute(each, values)] for each in _OF_ACCOUNT]
            return account.id, [_newest_act(tx), rows]

        account_id, rows = await self.ledger.read_snapshot(work)
        place = (await self.where()).get(account_id)
        return [rows, None if place is None else place.value]


def digest(data: Any) -> str:
    """Return a short string that changes whenever ``data`` changes."""
    return blake2b(json.dump(data), digest_size=SIZE).hexdigest()


def _newest_act(tx: sa.Connection) -> int:
    return tx.execute(_NEWEST_ACT).scalar() or 0


def _sanctions(tx: sa.Connection, now: float) -> int:
    holding = (
        sa.select(sa.func.count()).select_from(SANCTIONS).where(SANCTIONS.c.ends_at > int(now))
    )
    return int(tx.execute(holding).scalar_one())


def _invites(tx: sa.Connection) -> Any:
    return [_newest_act(tx), _row(tx, _INVITES)]


def _guilds(tx: sa.Connection) -> Any:
    return [
        [guild.id, guild.name, guild.nameplate, guild.leader, guild.members]
        for guild in SqlGuilds(tx).summaries()
    ]


def _row(tx: sa.Connection, statement: Any) -> list[int]:
    return [int(value or 0) for value in tx.execute(statement).one()]
