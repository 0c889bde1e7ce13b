"""From which networks accounts log in, and which of them a ban keeps out.

A network is an IPv4 address, or the /64 of an IPv6 one. The newest of an account are kept, for a
month.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field, frozen
from cachetools import TTLCache
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Index,
    String,
    Table,
    bindparam,
    delete,
    exists,
    insert,
    select,
)

from svcserver.board.waiting import unwaited
from svcserver.db.ledger import Ledger, OneAccount
from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId
from svcserver.kernel.roles import Role
from svcserver.metagame.accounts.rules import Account

KEPT_S = 30 * 86_400
MOST = 8  # networks of an account
AGAIN_S = 3_600  # after which a log-in from a known network is noted again
MAX_NOTED = 16_384
MOST_NEAR = 200  # accounts that one ban of networks reaches

ACCOUNT_NETWORKS = Table(
    "account_networks",
    METADATA,
    Column("account_id", String(64), primary_key=True),
    Column("network", String(64), primary_key=True),
    Column("at", BigInteger, nullable=False),  # epoch seconds
    Index("ix_account_networks_network", "network"),
)
BANNED_NETWORKS = Table(
    "banned_networks",
    METADATA,
    Column("account_id", String(64), primary_key=True),  # for whose ban
    Column("network", String(64), primary_key=True),
    Column("ends_at", BigInteger, nullable=False),  # epoch seconds
    Index("ix_banned_networks_network", "network"),
)
_N, _B = ACCOUNT_NETWORKS.c, BANNED_NETWORKS.c
_NOTE = Upsert.into(ACCOUNT_NETWORKS)
_OF = (
    select(_N.network, _N.at)
    .where(_N.account_id == bindparam("holder"))
    .order_by(_N.at.desc(), _N.network)
)
_FORGET = delete(ACCOUNT_NETWORKS).where(
    _N.account_id == bindparam("holder"), _N.network == bindparam("old")
)
_NEAR = (
    select(_N.account_id)
    .where(_N.network.in_(bindparam("among", expanding=True)), _N.at > bindparam("since"))
    .distinct()
    .order_by(_N.account_id)
    .limit(MOST_NEAR)
)
_HELD = (
    select(_B.account_id, _B.network)
    .where(_B.account_id.in_(bindparam("holders", expanding=True)))
    .order_by(_B.network)
)
_KEEPS_OUT = select(exists().where(_B.network == bindparam("wanted"), _B.ends_at > bindparam("at")))
_BAN = insert(BANNED_NETWORKS)
_LIFT = delete(BANNED_NETWORKS).where(_B.account_id == bindparam("holder"))


@frozen
class SqlNetworks:
    """The networks in an open transaction; times in epoch seconds."""

    tx: Connection

    def note(self, account_id: AccountId, network: str, now: float) -> None:
        """The account has logged in from there; what is old or too much is forgotten."""
        _NOTE.put(self.tx, [{"account_id": account_id, "network": network, "at": int(now)}])
        for number, row in enumerate(self.tx.execute(_OF, {"holder": account_id}).all()):
            if number >= MOST or row.at <= int(now) - KEPT_S:
                self.tx.execute(_FORGET, {"holder": account_id, "old": row.network})

    def of(self, account_id: AccountId, now: float) -> list[str]:
        """From where the account has logged in, the newest first."""
        rows = self.tx.execute(_OF, {"holder": account_id}).all()
        return [row.network for row in rows[:MOST] if row.at > int(now) - KEPT_S]

    def near(self, networks: Iterable[str], since: float) -> list[AccountId]:
        """Who has logged in from these since then."""
        asked = {"among": [*networks], "since": int(since)}
        return list(self.tx.execute(_NEAR, asked).scalars())

    def ban(self, account_id: AccountId, networks: Iterable[str], ends_at: int) -> None:
        """Keep these out with the account, instead of what was kept out with it before."""
        self.lift(account_id)
        rows = [{"account_id": account_id, "network": one, "ends_at": ends_at} for one in networks]
        if rows:
            self.tx.execute(_BAN, rows)

    def lift(self, account_id: AccountId) -> None:
        """Let in again what was kept out with the account."""
        self.tx.execute(_LIFT, {"holder": account_id})

    def kept_out_with(self, account_ids: Iterable[AccountId]) -> dict[AccountId, tuple[str, ...]]:
        """What is kept out with each of the accounts."""
        found: dict[AccountId, tuple[str, ...]] = {}
        for row in self.tx.execute(_HELD, {"holders": [*account_ids]}):
            found[row.account_id] = (*found.get(row.account_id, ()), row.network)
        return found

    def keeps_out(self, network: str, now: float) -> bool:
        """Whether a ban that holds keeps the network out."""
        return bool(self.tx.execute(_KEEPS_OUT, {"wanted": network, "at": int(now)}).scalar())


@define
class Networks:
    """Notes from where players log in, and says who is kept out; an empty network is any."""

    ledger: Ledger
    wall_clock: Callable[[], float]
    _noted: TTLCache[tuple[AccountId, str], bool] = field(init=False, repr=False)

    @_noted.default
    def _nothing(self) -> TTLCache[tuple[AccountId, str], bool]:
        return TTLCache(MAX_NOTED, AGAIN_S, self.wall_clock)

    async def admit(self, account: Account, network: str) -> bool:
        """Whether the account may log in from there, which is noted. Staff always may."""
        if not network:
            return True
        self._note(account.id, network)
        return account.role > Role.PLAYER or not await self.keeps_out(network)

    async def keeps_out(self, network: str) -> bool:
        """Whether a ban that holds keeps the network out."""
        if not network:
            return False
        return await self.ledger.read(
            lambda tx: SqlNetworks(tx).keeps_out(network, self.wall_clock())
        )

    def _note(self, account_id: AccountId, network: str) -> None:
        if (account_id, network) in self._noted:
            return
        self._noted[account_id, network] = True
        work = self.ledger.write(
            lambda tx: SqlNetworks(tx).note(account_id, network, self.wall_clock()),
            OneAccount(account_id),
        )
        unwaited(work)  # a log-in works also while nothing can be written
