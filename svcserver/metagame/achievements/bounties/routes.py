"""The bounty routes. Spec: 1 §4 Progression, bounties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NotRequired, TypedDict

from attrs import frozen
from sqlalchemy import Connection

from svcserver.db.ledger import Ledger
from svcserver.kernel import datafiles
from svcserver.kernel.datafiles import BadData, fault
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.eventlog import EventLog
from svcserver.metagame.achievements.bounties import rules
from svcserver.metagame.achievements.bounties.rules import NO_DRAFT
from svcserver.metagame.achievements.bounties.store import SqlBoard
from svcserver.metagame.settings import Settings
from svcserver.web.routes import Access, Answer, Call, Envelope, Routes, bare, enveloped

PACKAGE, FILE = "svcserver.metagame.achievements.bounties", "game_data.json"


def load_game_data() -> Mapping[str, Json]:
    """The fixed reply of ``/bounty/game-data``; raises BadData."""
    said = datafiles.read(PACKAGE, FILE)
    payload = said.get("payload")
    if not isinstance(payload, dict) or type(payload.get("max_slots")) is not int:
        raise BadData(fault(PACKAGE, FILE, "payload.max_slots must be a whole number"))
    for name in ("bounty_token_id", "premium_bounty_token_id"):
        if not isinstance(payload.get(name), str):
            raise BadData(fault(PACKAGE, FILE, f"payload.{name} must be a text"))
    return said


class DraftData(TypedDict):
    """What the board draws from; a draft that was sent comes back as sent."""

    current_draft_choices: list[Any]
    previous_draft_selections: list[Any]
    bronze_count: int
    silver_count: int
    gold_count: int


class BountyWish(TypedDict):
    """One bounty; further keys come back as sent."""

    bounty_id: str
    slot_index: NotRequired[int]
    update_version: NotRequired[int]
    drafted_timestamp: NotRequired[str]


class BountyUpdate(TypedDict):
    """Bounties to put up by id; those that are not named stay. A draft replaces the last."""

    bounties: NotRequired[list[BountyWish]]
    draft_data: NotRequired[dict[str, Any]]


class BountyIds(TypedDict):
    """Bounties to take down."""

    bounty_ids: list[str]


class BountyBoard(TypedDict):
    """The board; the daily and weekly drafts stand on that of fixed progression alone."""

    bounties: list[dict[str, Any]]
    draft_data: DraftData | dict[str, Any]
    draft_data_daily: NotRequired[DraftData]
    draft_data_weekly: NotRequired[DraftData]


@frozen
class Bounties:
    """The board of an account."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    game_data: Mapping[str, Json]
    ledger: Ledger
    now: Callable[[], float]
    log: EventLog

    @routes.row("GET", "/bounty/game-data", access=Access.TOKEN, reply=Envelope[dict[str, Any]])
    async def fixed(self, call: Call) -> Answer:
        """Slots and token ids."""
        return Answer(200, self.game_data)

    @routes.row(
        "GET", "/bounty/<user_id>", access=Access.TOKEN, own=True, reply=Envelope[BountyBoard]
    )
    async def read(self, call: Call, user_id: str) -> Answer:
        """The stored board."""
        if not self.settings.real_progression(user_id):
            return _stub()
        return await self.ledger.read(lambda tx: _shown(SqlBoard(tx), user_id))

    @routes.row(
        "POST",
        "/bounty/<user_id>",
        access=Access.TOKEN,
        game_server=True,
        body=object,
        sends=BountyUpdate,
        reply=Envelope[BountyBoard],
    )
    async def update(self, call: Call, user_id: str) -> Answer:
        """Partial update by bounty id; answered with the board."""
        if not self.settings.real_progression(user_id):
            return _stub()

        def work(tx: Connection, notes: list[str]) -> Answer:
            rules.update(SqlBoard(tx), user_id, call.body, iso(self.now()), notes)
            return _shown(SqlBoard(tx), user_id)

        return await self.log.write(call, user_id, work)

    @routes.row(
        "POST",
        "/bounty/delete/<user_id>",
        access=Access.TOKEN,
        real_only=True,
        game_server=True,
        body=object,
        sends=BountyIds,
        reply=Envelope[BountyBoard],
    )
    async def delete(self, call: Call, user_id: str) -> Answer:
        """Delete by id; answered with the board."""

        def work(tx: Connection, notes: list[str]) -> Answer:
            SqlBoard(tx).drop(user_id, rules.read_ids(call.body))
            return _shown(SqlBoard(tx), user_id)

        return await self.log.write(call, user_id, work)


def _shown(board: SqlBoard, account_id: AccountId) -> Answer:
    listed = [one.sent for one in rules.in_order(board.bounties(account_id))]
    draft: Any = board.draft(account_id)
    payload = {"bounties": listed, "draft_data": NO_DRAFT if draft is None else draft}
    return enveloped(payload, code="OK")


def _stub() -> Answer:
    drafts = {name: NO_DRAFT for name in ("draft_data", "draft_data_daily", "draft_data_weekly")}
    return enveloped({"bounties": [], **drafts})
