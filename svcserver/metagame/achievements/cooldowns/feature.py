"""Cooldowns: data shapes, transactions, table and routes. Spec: 1 §4 Progression, cooldowns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import sqlalchemy as sa
from attrs import frozen

from svcserver.db.ledger import Ledger
from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel.envelope import Empty, Envelope, envelope
from svcserver.kernel.ids import AccountId
from svcserver.kernel.names import is_name
from svcserver.kernel.refusals import Malformed
from svcserver.kernel.shapes import Late, Name, Shown, Skipping, text_where
from svcserver.kernel.times import DAY_S, iso
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts import recorded
from svcserver.metagame.accounts.eventlog import EventEntry, EventLog
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.bounds import check_capacity
from svcserver.metagame.achievements.cooldowns.rules import expired
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature, bare

MAX_DATE = 64
Date = Annotated[
    str, text_where(lambda date: len(date) <= MAX_DATE and date.isprintable(), "a date")
]
LateDate = Late[Date] | None
"""A malformed date makes the server refuse the whole batch; an invalid id is only skipped."""

DateById = Annotated[LateDate, Shown({"type": "string"})]
"""Null is also accepted, but not documented: client generators make invalid Go code of it."""


@frozen
class CooldownStart:
    """A cooldown and its start date, which is stored as sent; the default date is now."""

    cooldown_id: Name
    cooldown_started_date: LateDate = None


@frozen
class CooldownBatch:
    """Cooldowns to start: a list of entries, or an object with a date for each cooldown id."""

    cooldowns: Skipping[CooldownStart] | dict[str, DateById]

    def started(self, now: str) -> dict[str, str]:
        """Return the start date of each cooldown: the date as sent, or ``now`` if none was sent.

        Raises Malformed for an invalid date.
        """
        listed = self.cooldowns
        sent = (
            [(name, date) for name, date in listed.items() if is_name(name)]
            if isinstance(listed, dict)
            else [(start.cooldown_id, start.cooldown_started_date) for start in listed]
        )
        return {name: (date.parse_value() if date else "") or now for name, date in sent}


def cooldown_in_path(text: str) -> str:
    """Return the cooldown id from a path; raises Malformed."""
    if not is_name(text):
        raise Malformed("the cooldown's id is not valid")
    return text


@frozen
class CooldownActs:
    """Reads and starts cooldowns; ``most`` is the maximum number for each account.

    The event log also records requests with malformed bodies.
    """

    ledger: Ledger
    wall_clock: Callable[[], float]
    events: EventLog
    most: int

    async def read_cooldowns(self, account_id: AccountId) -> dict[str, str]:
        """Return the start date of each cooldown of the account."""
        return await self.ledger.read_snapshot(lambda tx: SqlCooldowns(tx).all(account_id))

    async def batch(
        self, entry: EventEntry[dict[str, str]], sent: Late[CooldownBatch]
    ) -> dict[str, str]:
        """Start several cooldowns; return all cooldowns of the account."""

        def work(tx: sa.Connection, notes: list[str]) -> dict[str, str]:
            cooldowns, started = (
                SqlCooldowns(tx),
                sent.parse_value().started(iso(self.wall_clock())),
            )
            check_capacity(cooldowns.all(entry.account_id), started, self.most)
            cooldowns.put(entry.account_id, started)
            return cooldowns.all(entry.account_id)

        return await self.events.write(entry, work)

    async def start(self, entry: EventEntry[None], cooldown_id: str) -> None:
        """Start a cooldown now; delete one-time cooldowns that are over a day old."""

        def work(tx: sa.Connection, notes: list[str]) -> None:
            name, now = cooldown_in_path(cooldown_id), self.wall_clock()
            cooldowns = SqlCooldowns(tx)
            started = cooldowns.all(entry.account_id)
            dropped = expired(started, iso(now - DAY_S))
            check_capacity(started.keys() - set(dropped), [name], self.most)
            cooldowns.drop(entry.account_id, dropped)
            cooldowns.put(entry.account_id, {name: iso(now)})

        await self.events.write(entry, work)


COOLDOWNS = sa.Table(
    "cooldowns",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("cooldown_id", sa.String(128), primary_key=True),
    sa.Column("started", sa.String(64), nullable=False),  # an ISO 8601 string
)
_C = COOLDOWNS.c
_ALL = sa.select(_C.cooldown_id, _C.started).where(_C.account_id == sa.bindparam("account"))
_DROP = sa.delete(COOLDOWNS).where(
    _C.account_id == sa.bindparam("account"), _C.cooldown_id == sa.bindparam("wanted")
)
_PUT = Upsert(COOLDOWNS)


@frozen
class SqlCooldowns:
    """Reads and writes cooldowns in one transaction; start dates are stored as sent."""

    tx: sa.Connection

    def all(self, account_id: AccountId) -> dict[str, str]:
        """Return the start date of each cooldown, sorted by cooldown id."""
        rows = self.tx.execute(_ALL, {"account": account_id})
        return dict(sorted((row.cooldown_id, row.started) for row in rows))

    def put(self, account_id: AccountId, started: Mapping[str, str]) -> None:
        rows = [
            {"account_id": account_id, "cooldown_id": name, "started": date}
            for name, date in started.items()
        ]
        _PUT.put(self.tx, rows)

    def drop(self, account_id: AccountId, names: Sequence[str]) -> None:
        if names:
            self.tx.execute(_DROP, [{"account": account_id, "wanted": name} for name in names])


def _show(started: dict[str, str]) -> dict[str, Any]:
    return envelope(started, code=200)


@frozen
class CooldownRoutes:
    """The routes for the start dates of an account's cooldowns."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    settings: MetagameSettings
    acts: CooldownActs
    acting: Acting

    @routes.row("GET", "/cooldown/<user_id>", own=True, reply=Envelope[dict[str, str]])
    async def read(self, call: Call, user_id: str) -> Answer:
        """Return the start date of each cooldown; with PROGRESSION_MODE=stub, an empty object."""
        if not self.settings.real_progression(user_id):
            return enveloped(EMPTY_OBJECT)
        return Answer(200, _show(await self.acts.read_cooldowns(user_id)))

    @routes.row(
        "PUT",
        "/cooldown/batch/<user_id>",
        game_server=True,
        body=Late[CooldownBatch],
        reply=Envelope[dict[str, str]],
        again=Again.NATURAL,
    )
    async def batch(self, call: Call[Late[CooldownBatch]], user_id: str) -> Answer:
        """Start several cooldowns; return all cooldowns of the account."""
        if not self.settings.real_progression(user_id):
            return enveloped(EMPTY_OBJECT)
        entry = recorded.entry(self.acting, call, user_id, _show)
        return Answer(200, _show(await self.acts.batch(entry, call.body)))

    @routes.row(
        "PUT",
        "/cooldown/<user_id>/<cooldown_id>",
        real_only=True,
        game_server=True,
        reply=Empty,
        again=Again.NATURAL,
    )
    async def start(self, call: Call, user_id: str, cooldown_id: str) -> Answer:
        """Start a cooldown now; delete one-time cooldowns that are over a day old."""
        entry = recorded.entry(self.acting, call, user_id, recorded.nothing)
        await self.acts.start(entry, cooldown_id)
        return Answer(200, EMPTY_OBJECT)


def cooldowns(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of cooldowns."""
    most = parts.settings.achievements_max
    acts = CooldownActs(parts.ledger, parts.wall_clock, parts.events, most)
    yield CooldownRoutes(parts.settings, acts, parts.acting)
