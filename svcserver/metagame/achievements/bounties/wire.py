"""Request and reply shapes of bounties. Spec: 1 §4 POST /bounty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from attrs import field, frozen

from svcserver.kernel import datafiles, json
from svcserver.kernel.envelope import envelope
from svcserver.kernel.json import Json
from svcserver.kernel.shapes import (
    AsSent,
    Itself,
    Lenient,
    Name,
    Opaque,
    Skipping,
    WholeNumber,
    further_members,
)
from svcserver.metagame.achievements.bounties.rules import AccountBoard, Bounty, in_order

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
class BountyWish:
    """A bounty to store with all keys as sent; if the drafting date is missing, it is added."""

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
    """Bounties to add, or to replace by id, and optionally a new draft."""

    bounties: Skipping[BountyWish] | None = ()
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
    """A bounty as it was sent; a missing drafting date is filled with the time of the request."""

    bounty_id: str
    drafted_timestamp: AsSent
    slot_index: NotRequired[AsSent]
    update_version: NotRequired[AsSent]


class BountyBoard(TypedDict):
    """The bounty board; only with stub progression does it have daily and weekly drafts."""

    bounties: list[StoredBounty]
    draft_data: DraftData | dict[str, AsSent]
    draft_data_daily: NotRequired[DraftData]
    draft_data_weekly: NotRequired[DraftData]


def show(board: AccountBoard) -> dict[str, Any]:
    """Return the reply with an account's stored board."""
    listed = [json.Fragment(bounty.data) for bounty in in_order(board.bounties)]
    draft = NO_DRAFT if board.draft is None else json.Fragment(board.draft)
    return envelope({"bounties": listed, "draft_data": draft}, code="OK")


def show_fixed() -> dict[str, Any]:
    """Return the reply for stub progression: an empty board."""
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
            raise ValueError(f"payload.{name} must be a text")
    return data
