"""Bounty boards: data shapes, transactions, tables and routes. Spec: 1 §4 Progression, bounties."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NotRequired, TypedDict

import sqlalchemy as sa
from attrs import field, frozen

from svcserver.db.ledger import Ledger
from svcserver.db.tables import METADATA
from svcserver.db.upsert import Upsert
from svcserver.kernel import datafiles, json
from svcserver.kernel.envelope import Envelope, envelope
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.shapes import (
    AsSent,
    Itself,
    Late,
    Lenient,
    Name,
    Opaque,
    Skipping,
    WholeNumber,
    further_members,
)
from svcserver.kernel.times import iso
from svcserver.metagame.access.acting import Acting
from svcserver.metagame.accounts import recorded
from svcserver.metagame.accounts.eventlog import EventEntry, EventLog
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.achievements.bounties import rules
from svcserver.metagame.achievements.bounties.rules import AccountBoard, Bounty, in_order
from svcserver.metagame.once import Again
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.routes import Answer, Feature, bare

PACKAGE, FILE = "svcserver.metagame.achievements.bounties", "game_data.json"
NO_DRAFT: Mapping[str, Json] = {
    "current_draft_choices": [],
    "previous_draft_selections": [],
    "bronze_count": 0,
    "silver_count": 0,
    "gold_count": 0,
}
NeverFilled = Annotated[Json, Opaque("Never there: the list is always empty.")]


@frozen
class BountyRequest:
    """A bounty to store, with all keys as sent; the server adds a missing drafting date."""

    bounty_id: Name
    slot_index: Lenient[WholeNumber | None] = None
    update_version: Lenient[WholeNumber] = 0
    drafted_timestamp: AsSent = None
    sent: Itself = field(factory=dict)

    def bounty(self, now: str) -> Bounty:
        """Return the bounty to store; ``now`` (ISO 8601) replaces a missing drafting date."""
        stamp = {} if self.drafted_timestamp else {"drafted_timestamp": now}
        members = {**self.sent, **stamp}
        return Bounty(self.bounty_id, self.slot_index, self.update_version, json.dump(members))


@frozen
class BountyUpdate:
    """Bounties to add, and optionally a new draft.

    A bounty replaces bounties on the board that have the same id or slot.
    """

    bounties: Skipping[BountyRequest] | None = ()
    draft_data: Lenient[dict[str, AsSent] | None] = None

    def draft(self) -> bytes | None:
        """Return the draft to store as JSON, or None to leave the stored draft unchanged."""
        return None if self.draft_data is None else json.dump(self.draft_data)


@frozen
class BountyIds:
    """The ids of bounties to delete."""

    bounty_ids: Skipping[Name]


class DraftData(TypedDict):
    """The draft from which players choose bounties."""

    current_draft_choices: list[AsSent]
    previous_draft_selections: list[AsSent]
    bronze_count: int
    silver_count: int
    gold_count: int


class BountyRules(TypedDict):
    """The client's rules for bounties, which are the same for all accounts."""

    max_slots: int
    num_draft_options: int
    num_spicy_options: int
    bounty_token_id: str
    premium_bounty_token_id: str
    num_tokens_hp_start: int
    num_tokens_per_day: int
    bounty_token_grant_hour: int
    history_length: int
    bronze_count: int
    silver_count: int
    gold_count: int
    new_season_reset_bounties: bool
    bounty_data: list[NeverFilled]
    item_grant_data: list[NeverFilled]
    token_rollover_warning_days: int
    automatic_draft: bool
    automatic_claim: bool
    delete_claimed_bounties: bool


@further_members("The client's members of the bounty, returned as they were sent.")
class StoredBounty(TypedDict):
    """A bounty as it was sent, except that a missing drafting date has been added."""

    bounty_id: str
    drafted_timestamp: AsSent
    slot_index: NotRequired[AsSent]
    update_version: NotRequired[AsSent]


class BountyBoard(TypedDict):
    """The bounty board; it has daily and weekly drafts only with PROGRESSION_MODE=stub."""

    bounties: list[StoredBounty]
    draft_data: DraftData | dict[str, AsSent]
    draft_data_daily: NotRequired[DraftData]
    draft_data_weekly: NotRequired[DraftData]


def show_board(board: AccountBoard) -> dict[str, Any]:
    """Return the reply with an account's stored board."""
    listed = [json.Fragment(bounty.data) for bounty in in_order(board.bounties)]
    draft = NO_DRAFT if board.draft is None else json.Fragment(board.draft)
    return envelope({"bounties": listed, "draft_data": draft}, code="OK")


def show_fixed() -> dict[str, Any]:
    """Return the reply without bounties, for accounts whose progression is not stored."""
    drafts = {name: NO_DRAFT for name in ("draft_data", "draft_data_daily", "draft_data_weekly")}
    return envelope({"bounties": [], **drafts})


def load_game_data() -> Mapping[str, Json]:
    """Return the constant reply of ``/bounty/game-data``; raises BadData."""
    return datafiles.load(PACKAGE, FILE, _checked)


def _checked(data: dict[str, Any]) -> Mapping[str, Json]:
    payload = data["payload"]
    if type(payload["max_slots"]) is not int:
        raise ValueError("payload.max_slots must be a whole number")
    for name in ("bounty_token_id", "premium_bounty_token_id"):
        if not isinstance(payload[name], str):
            raise ValueError(f"payload.{name} must be a string")
    return data


@frozen
class BountyActs:
    """The operations on a bounty board; each returns the board.

    The event log also records requests with malformed bodies.
    """

    ledger: Ledger
    wall_clock: Callable[[], float]
    events: EventLog
    most_bytes: int

    async def read_board(self, account_id: AccountId) -> AccountBoard:
        return await self.ledger.read_snapshot(lambda tx: _board(tx, account_id))

    async def update(
        self, entry: EventEntry[AccountBoard], late: Late[BountyUpdate]
    ) -> AccountBoard:
        """Add the sent bounties to the board; if a draft was sent, replace the stored draft."""
        account_id = entry.account_id

        def work(tx: sa.Connection, notes: list[str]) -> AccountBoard:
            sent, now = late.parse_value(), iso(self.wall_clock())
            store, draft = SqlBounties(tx), sent.draft()
            before = store.bounties(account_id)
            bounties = [bounty.bounty(now) for bounty in sent.bounties or ()]
            after = rules.updated(before, bounties, notes)
            rules.check_size(before, after, draft, self.most_bytes)
            store.replace(account_id, before, after)
            if draft is not None:
                store.put_draft(account_id, draft)
            return _board(tx, account_id)

        return await self.events.write(entry, work)

    async def delete(self, entry: EventEntry[AccountBoard], late: Late[BountyIds]) -> AccountBoard:
        def work(tx: sa.Connection, notes: list[str]) -> AccountBoard:
            SqlBounties(tx).drop(entry.account_id, late.parse_value().bounty_ids)
            return _board(tx, entry.account_id)

        return await self.events.write(entry, work)


def _board(tx: sa.Connection, account_id: AccountId) -> AccountBoard:
    board = SqlBounties(tx)
    return AccountBoard([*board.bounties(account_id).values()], board.draft(account_id))


BOUNTIES = sa.Table(
    "bounties",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("bounty_id", sa.String(128), primary_key=True),
    sa.Column("slot_index", sa.BigInteger, nullable=True),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),  # the element as sent
)
BOUNTY_DRAFTS = sa.Table(
    "bounty_drafts",
    METADATA,
    sa.Column("account_id", sa.String(64), primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)
_B, _D = BOUNTIES.c, BOUNTY_DRAFTS.c
_ALL = sa.select(BOUNTIES).where(_B.account_id == sa.bindparam("account"))
_PUT = Upsert(BOUNTIES)
_DROP = sa.delete(BOUNTIES).where(
    _B.account_id == sa.bindparam("account"), _B.bounty_id == sa.bindparam("wanted")
)
_DRAFT = sa.select(_D.data).where(_D.account_id == sa.bindparam("account"))
_PUT_DRAFT = Upsert(BOUNTY_DRAFTS)


@frozen
class SqlBounties:
    """The tables of bounty boards, within one transaction."""

    tx: sa.Connection

    def bounties(self, account_id: AccountId) -> dict[str, Bounty]:
        rows = self.tx.execute(_ALL, {"account": account_id})
        return {
            row.bounty_id: Bounty(row.bounty_id, row.slot_index, row.version, row.data)
            for row in rows
        }

    def replace(
        self, account_id: AccountId, before: Mapping[str, Bounty], after: Mapping[str, Bounty]
    ) -> None:
        """Write what has changed between the two states of a board."""
        self.drop(account_id, [name for name in before if name not in after])
        rows = [
            {
                "account_id": account_id,
                "bounty_id": bounty.id,
                "slot_index": bounty.slot,
                "version": bounty.version,
                "data": bounty.data,
            }
            for name, bounty in after.items()
            if before.get(name) is not bounty
        ]
        _PUT.put(self.tx, rows)

    def drop(self, account_id: AccountId, bounty_ids: Sequence[str]) -> None:
        if bounty_ids:
            values = [{"account": account_id, "wanted": bounty_id} for bounty_id in bounty_ids]
            self.tx.execute(_DROP, values)

    def draft(self, account_id: AccountId) -> bytes | None:
        draft: bytes | None = self.tx.execute(_DRAFT, {"account": account_id}).scalar()
        return draft

    def put_draft(self, account_id: AccountId, draft: bytes) -> None:
        _PUT_DRAFT.put(self.tx, [{"account_id": account_id, "data": draft}])


@frozen
class BountyRoutes:
    """The routes for an account's bounty board."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN)
    settings: MetagameSettings
    acts: BountyActs
    acting: Acting
    game_data: Mapping[str, Json] = field(factory=load_game_data)

    @routes.row("GET", "/bounty/game-data", reply=Envelope[BountyRules])
    async def fixed(self, call: Call) -> Answer:
        """Return the client's bounty rules (slots, drafts, tokens), the same for all accounts."""
        return Answer(200, self.game_data)

    @routes.row("GET", "/bounty/<user_id>", own=True, reply=Envelope[BountyBoard])
    async def read(self, call: Call, user_id: str) -> Answer:
        """Return the account's bounty board; with PROGRESSION_MODE=stub, it is empty."""
        if not self.settings.real_progression(user_id):
            return Answer(200, show_fixed())
        return Answer(200, show_board(await self.acts.read_board(user_id)))

    @routes.row(
        "POST",
        "/bounty/<user_id>",
        game_server=True,
        body=Late[BountyUpdate],
        reply=Envelope[BountyBoard],
        again=Again.NATURAL,
    )
    async def update(self, call: Call[Late[BountyUpdate]], user_id: str) -> Answer:
        """Add bounties, replacing bounties that have the same id or slot; return the board."""
        if not self.settings.real_progression(user_id):
            return Answer(200, show_fixed())
        entry = recorded.entry(self.acting, call, user_id, show_board)
        return Answer(200, show_board(await self.acts.update(entry, call.body)))

    @routes.row(
        "POST",
        "/bounty/delete/<user_id>",
        real_only=True,
        game_server=True,
        body=Late[BountyIds],
        reply=Envelope[BountyBoard],
        again=Again.NATURAL,
    )
    async def delete(self, call: Call[Late[BountyIds]], user_id: str) -> Answer:
        """Delete the bounties with these ids from the account's board; return the board."""
        entry = recorded.entry(self.acting, call, user_id, show_board)
        return Answer(200, show_board(await self.acts.delete(entry, call.body)))


def bounties(parts: Parts) -> Iterator[Feature]:
    """Yield the routes of bounties."""
    most = parts.settings.bounties_max_bytes
    acts = BountyActs(parts.ledger, parts.wall_clock, parts.events, most)
    yield BountyRoutes(parts.settings, acts, parts.acting)
