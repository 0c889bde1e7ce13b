"""Entitlements: data shapes, transactions, table and routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, TypedDict

import sqlalchemy as sa
from attrs import evolve, frozen

from svcserver.db.ledger import Ledger, OneAccount
from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.envelope import Empty, Envelope
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Late, Lenient, Name
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts import recorded
from svcserver.metagame.accounts.eventlog import EventEntry, EventLog, is_known
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.bounds import check_capacity
from svcserver.metagame.achievements.entitlements import rules
from svcserver.metagame.achievements.entitlements.rules import Entitlement
from svcserver.metagame.achievements.wire import EntitlementRecord, Hours, record
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature, bare


@frozen
class EntitlementRequest:
    """An entitlement to grant; its name is in ``entitlement`` or in ``name``.

    ``duration`` is in hours; 0 or absent means forever.
    """

    entitlement: Name | None = None
    name: Lenient[Name | None] = None
    duration: Hours | None = None

    @property
    def wanted(self) -> str:
        """Return the entitlement's name; raises Malformed."""
        name = self.entitlement or self.name
        if name is None:
            raise Malformed("entitlement must be a text")
        return name


class EntitlementList(TypedDict):
    """The entitlements in force, without the envelope that other replies have."""

    entitlements: list[EntitlementRecord]


Listed = EntitlementList | Envelope[list[EntitlementRecord]]
"""The list of entitlements; for an account with fixed progression, an empty envelope."""


def show_entitlements(listed: Sequence[Entitlement]) -> EntitlementList:
    """Return the reply with the entitlements in force, without the usual envelope."""
    records = [
        record(entitlement.name, entitlement.duration, entitlement.activated_at)
        for entitlement in listed
    ]
    return {"entitlements": records}


@frozen
class EntitlementActs:
    """Lists, grants and revokes entitlements.

    Every account gets the entitlements ``defaults``, and can have at most ``most`` entitlements.
    """

    defaults: tuple[str, ...]
    most: int
    ledger: Ledger
    wall_clock: Callable[[], float]
    events: EventLog

    async def listed(self, account_id: AccountId) -> Sequence[Entitlement]:
        """Return the entitlements in force; the first call for an account stores the defaults."""
        held = await self.ledger.read_snapshot(lambda tx: SqlEntitlements(tx).all(account_id))
        if not rules.missing_defaults(held, self.defaults):
            return rules.active(held, self._at())

        def first_use(tx: sa.Connection) -> Sequence[Entitlement]:
            if is_known(tx, account_id):
                return listing(tx, account_id, self.defaults, self.wall_clock())
            # without an account (deleted, or AUTH_MODE=NONE), nothing is stored
            at = self._at()
            return rules.active(rules.with_defaults(held, self.defaults, at), at)

        return await self.ledger.write(first_use, OneAccount(account_id))

    async def grant(
        self, entry: EventEntry[Sequence[Entitlement]], late: Late[EntitlementRequest]
    ) -> Sequence[Entitlement]:
        """Grant an entitlement; return the list of entitlements in force."""
        account_id = entry.account_id

        def work(tx: sa.Connection, notes: list[str]) -> Sequence[Entitlement]:
            sent, now, store = late.parse_value(), self.wall_clock(), SqlEntitlements(tx)
            check_capacity(store.all(account_id), [sent.wanted], self.most)
            listing(tx, account_id, self.defaults, now)
            store.grant(account_id, sent.wanted, sent.duration or 0.0, "game server", now)
            return listing(tx, account_id, self.defaults, now)

        return await self.events.write(entry, work)

    async def revoke(self, entry: EventEntry[None], name: str) -> None:
        """Revoke an entitlement, if the account has it."""
        account_id = entry.account_id

        def work(tx: sa.Connection, notes: list[str]) -> None:
            entitlements, at = SqlEntitlements(tx), self._at()
            held = entitlements.with_defaults(account_id, self.defaults, at)
            entitlements.revoke(account_id, held.get(name), at)

        await self.events.write(entry, work)

    def _at(self) -> int:
        return round(self.wall_clock() * 1000)


ENTITLEMENTS = sa.Table(
    "entitlements",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(128), primary_key=True),
    sa.Column("duration", sa.Float(53), nullable=False),  # hours
    sa.Column("activated_at", sa.BigInteger, nullable=False),  # epoch milliseconds
    sa.Column("revoked", sa.Integer, nullable=False),
    sa.Column("source", sa.String(256), nullable=False),
)
_E = ENTITLEMENTS.c
_ALL = sa.select(ENTITLEMENTS).where(_E.account_id == sa.bindparam("account"))
_PUT = Upsert(ENTITLEMENTS)


@frozen
class SqlEntitlements:
    """The table of entitlements, within one transaction."""

    tx: sa.Connection
    defaults: tuple[str, ...] = ()

    def all(self, account_id: AccountId) -> dict[str, Entitlement]:
        """Return a dict from name to entitlement, including ended and revoked entitlements."""
        rows = self.tx.execute(_ALL, {"account": account_id})
        return {
            row.name: Entitlement(
                row.name, row.duration, row.activated_at, row.source, bool(row.revoked)
            )
            for row in rows
        }

    def with_defaults(
        self, account_id: AccountId, defaults: Iterable[str], at: int
    ) -> dict[str, Entitlement]:
        """Store the missing default entitlements; return all entitlements of the account."""
        before = self.all(account_id)
        held = rules.with_defaults(before, defaults, at)
        for name, entitlement in held.items():
            if name not in before:
                self.put(account_id, entitlement)
        return held

    def revoke(self, account_id: AccountId, held: Entitlement | None, at: int) -> bool:
        """Revoke an entitlement but keep its row; return whether it was in force."""
        if held is None:
            return False
        self.put(account_id, evolve(held, revoked=True))
        return held.holds(at)

    def put(self, account_id: AccountId, entitlement: Entitlement) -> None:
        """Store an entitlement; replace the account's entitlement of the same name."""
        row = {
            "account_id": account_id,
            "name": entitlement.name,
            "duration": entitlement.duration,
            "activated_at": entitlement.activated_at,
            "revoked": int(entitlement.revoked),
            "source": entitlement.source[:256],
        }
        _PUT.put(self.tx, [row])

    def active(self, account_id: AccountId, now: float) -> set[str]:
        """Return the names of the entitlements in force at ``now`` (epoch seconds).

        The result includes ``self.defaults``, even if these are not stored yet.
        """
        held, at = self.all(account_id), round(now * 1000)
        fresh = rules.missing_defaults(held, self.defaults)
        return {entitlement.name for entitlement in rules.active(held, at)} | set(fresh)

    def grant(
        self, account_id: AccountId, entitlement: str, duration: float, source: str, now: float
    ) -> None:
        """Grant an entitlement for ``duration`` hours (0: forever) from ``now`` (epoch seconds).

        The transaction must have the scope ``OneAccount(account_id)``.
        """
        fresh = Entitlement(entitlement, duration, round(now * 1000), source)
        before = self.all(account_id).get(entitlement)
        self.put(account_id, rules.granted(before, fresh))


def listing(
    tx: sa.Connection, account_id: AccountId, defaults: tuple[str, ...], now: float
) -> list[Entitlement]:
    """Return the entitlements in force at ``now`` (epoch seconds).

    The first call for an account stores the default entitlements.
    """
    at = round(now * 1000)
    return rules.active(SqlEntitlements(tx).with_defaults(account_id, defaults, at), at)


@frozen
class EntitlementRoutes:
    """The routes that list, grant and revoke an account's entitlements."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    settings: MetagameSettings
    acts: EntitlementActs
    acting: Acting

    @routes.row("GET", "/entitlementsv2", reply=Listed)
    async def read(self, call: Call) -> Answer:
        """Return the entitlements of the player whose token the request has.

        A game server sends the token of one of its players.
        """
        account = call.caller.account
        if account is None or not self.settings.real_progression(account):
            return enveloped([])
        return Answer(200, show_entitlements(await self.acts.listed(account)))

    @routes.row(
        "POST",
        "/entitlementv2/<user_id>",
        game_server=True,
        body=Late[EntitlementRequest],
        reply=Listed,
        again=Again.NATURAL,
    )
    async def grant(self, call: Call[Late[EntitlementRequest]], user_id: str) -> Answer:
        """Grant an entitlement to the account; return all entitlements in force."""
        if not self.settings.real_progression(user_id):
            return enveloped([])
        entry = recorded.entry(self.acting, call, user_id, show_entitlements)
        return Answer(200, show_entitlements(await self.acts.grant(entry, call.body)))

    @routes.row(
        "DELETE",
        "/entitlement/<user_id>/<entitlement>",
        real_only=True,
        game_server=True,
        reply=Empty,
        again=Again.NATURAL,
    )
    async def revoke(self, call: Call, user_id: str, entitlement: str) -> Answer:
        """Revoke an account's entitlement; the reply is 200 even if the account never had it."""
        entry = recorded.entry(self.acting, call, user_id, recorded.nothing)
        await self.acts.revoke(entry, entitlement)
        return Answer(200, EMPTY_OBJECT)


def entitlements(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of entitlements."""
    settings = parts.settings
    acts = EntitlementActs(
        settings.entitlements_default,
        settings.achievements_max,
        parts.ledger,
        parts.wall_clock,
        parts.events,
    )
    yield EntitlementRoutes(settings, acts, parts.acting)
