"""The networks from which accounts log in, and the networks that are banned or muted.

A network is an IPv4 address, or the /64 of an IPv6 address. The newest networks of each account are
stored for a month.
"""

from collections.abc import Callable, Iterable

import sqlalchemy as sa
from attrs import define, field, frozen
from cachetools import TTLCache

from svcserver.board.waiting import log_failure
from svcserver.db.ledger import Ledger, OneAccount
from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.ids import AccountId
from svcserver.kernel.roles import Role
from svcserver.metagame.accounts.rules import Account

KEPT_S = 30 * 86_400
MOST = 8  # networks per account
AGAIN_S = 3_600  # seconds until a log-in from a known network is recorded again
MAX_NOTED = 16_384
MOST_NEAR = 200  # maximum number of accounts that ``near`` returns

ACCOUNT_NETWORKS = sa.Table(
    "account_networks",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("network", sa.String(64), primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),  # epoch seconds
    sa.Index("ix_account_networks_network", "network"),
)
_N = ACCOUNT_NETWORKS.c
_NOTE = Upsert(ACCOUNT_NETWORKS)
_OF = (
    sa.select(_N.network, _N.at)
    .where(_N.account_id == sa.bindparam("holder"))
    .order_by(_N.at.desc(), _N.network)
)
_FORGET = sa.delete(ACCOUNT_NETWORKS).where(
    _N.account_id == sa.bindparam("holder"), _N.network == sa.bindparam("old")
)
_NEAR = (
    sa.select(_N.account_id)
    .where(_N.network.in_(sa.bindparam("among", expanding=True)), _N.at > sa.bindparam("since"))
    .distinct()
    .order_by(_N.account_id)
    .limit(MOST_NEAR)
)


class HeldNetworks:
    """The networks that sanctions of one ``kind`` (``ban`` or ``mute``) cover.

    Every method takes the open transaction; times are in epoch seconds.
    """

    def __init__(self, name: str, kind: str) -> None:
        held_for = sa.table(
            "sanctions", sa.column("account_id"), sa.column("kind"), sa.column("ends_at")
        ).alias("held_for")
        networks = sa.Table(
            name,
            METADATA,
            sa.Column("account_id", sa.String(64), primary_key=True),  # the sanctioned account
            sa.Column("network", sa.String(64), primary_key=True),
            sa.Column("ends_at", sa.BigInteger, nullable=False),  # epoch seconds
            sa.Index(f"ix_{name}_network", "network"),
        )
        held = networks.c
        # an older version without this table may have changed the sanction, but not these rows
        still = networks.join(
            held_for,
            (held_for.c.account_id == held.account_id)
            & (held_for.c.kind == kind)
            & (held_for.c.ends_at == held.ends_at),
        )
        self._add = sa.insert(networks)
        self._drop = sa.delete(networks).where(held.account_id == sa.bindparam("holder"))
        self._of = (
            sa.select(held.account_id, held.network)
            .select_from(still)
            .where(held.account_id.in_(sa.bindparam("holders", expanding=True)))
            .order_by(held.network)
        )
        self._among = (
            sa.select(held.network)
            .select_from(still)
            .where(held.network.in_(sa.bindparam("wanted", expanding=True)))
            .where(held.ends_at > sa.bindparam("at"))
        )

    def put(
        self, tx: sa.Connection, account_id: AccountId, networks: Iterable[str], ends_at: int
    ) -> None:
        """Make the account's sanction cover exactly these networks."""
        self.drop(tx, account_id)
        rows = [
            {"account_id": account_id, "network": network, "ends_at": ends_at}
            for network in networks
        ]
        if rows:
            tx.execute(self._add, rows)

    def drop(self, tx: sa.Connection, account_id: AccountId) -> None:
        """Make the account's sanction cover no network."""
        tx.execute(self._drop, {"holder": account_id})

    def held_by(
        self, tx: sa.Connection, account_ids: Iterable[AccountId]
    ) -> dict[AccountId, tuple[str, ...]]:
        """Return a dict from account id to the networks that the account's sanction covers."""
        by_account: dict[AccountId, tuple[str, ...]] = {}
        for row in tx.execute(self._of, {"holders": [*account_ids]}):
            by_account[row.account_id] = (*by_account.get(row.account_id, ()), row.network)
        return by_account

    def among(self, tx: sa.Connection, networks: Iterable[str], now: float) -> frozenset[str]:
        """Return the given networks that a current sanction covers."""
        values = {"wanted": [*networks], "at": int(now)}
        return frozenset(tx.execute(self._among, values).scalars())


BANNED = HeldNetworks("banned_networks", "ban")  # nobody can log in from these
MUTED = HeldNetworks("muted_networks", "mute")  # nobody can write in chat from these


@frozen
class SqlNetworks:
    """Reads and stores the networks of log-ins in a transaction; times are epoch seconds."""

    tx: sa.Connection

    def note(self, account_id: AccountId, network: str, now: float) -> None:
        """Record a log-in from the network, and delete old networks of the account.

        Networks beyond the newest ``MOST``, or without a log-in for a month, are deleted.
        """
        _NOTE.put(self.tx, [{"account_id": account_id, "network": network, "at": int(now)}])
        for number, row in enumerate(self.tx.execute(_OF, {"holder": account_id}).all()):
            if number >= MOST or row.at <= int(now) - KEPT_S:
                self.tx.execute(_FORGET, {"holder": account_id, "old": row.network})

    def networks_of(self, account_id: AccountId, now: float) -> list[str]:
        """Return the networks from which the account has logged in, newest first."""
        rows = self.tx.execute(_OF, {"holder": account_id}).all()
        return [row.network for row in rows[:MOST] if row.at > int(now) - KEPT_S]

    def near(self, networks: Iterable[str], since: float) -> list[AccountId]:
        """Return the accounts that logged in from these networks after ``since``.

        The list has at most MOST_NEAR accounts, in the order of their ids.
        """
        values = {"among": [*networks], "since": int(since)}
        return list(self.tx.execute(_NEAR, values).scalars())


@define
class Networks:
    """Records the networks of log-ins, and checks whether a network is banned."""

    ledger: Ledger
    wall_clock: Callable[[], float]
    _noted: TTLCache[tuple[AccountId, str], bool] = field(init=False, repr=False)

    @_noted.default
    def _nothing(self) -> TTLCache[tuple[AccountId, str], bool]:
        return TTLCache(MAX_NOTED, AGAIN_S, self.wall_clock)

    async def admit(self, account: Account, network: str) -> bool:
        """Record a log-in, and return whether it is allowed from that network.

        Staff may log in from a banned network. An empty network (this machine) is never banned.
        """
        if not network:
            return True
        self._note(account.id, network)
        return account.role > Role.PLAYER or not await self.keeps_out(network)

    async def keeps_out(self, network: str) -> bool:
        """Return whether a current ban covers the network."""
        if not network:
            return False
        return await self.ledger.read_snapshot(
            lambda tx: bool(BANNED.among(tx, [network], self.wall_clock()))
        )

    def _note(self, account_id: AccountId, network: str) -> None:
        if (account_id, network) in self._noted:
            return
        self._noted[account_id, network] = True
        work = self.ledger.write(
            lambda tx: SqlNetworks(tx).note(account_id, network, self.wall_clock()),
            OneAccount(account_id),
        )
        log_failure(work)  # log-in works even while the database cannot be written
