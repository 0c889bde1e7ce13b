"""Bounties as they are sent and as the client reads them. Spec: 1 §4 POST /bounty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NotRequired, TypedDict

from attrs import field, frozen

from svcserver.kernel.json import Json
from svcserver.kernel.shapes import Itself, Lenient, Name, Skipping, WholeNumber
from svcserver.metagame.achievements.bounties.rules import NO_DRAFT, Bounty, in_order
from svcserver.metagame.replies import enveloped
from svcserver.web.routes import Answer


@frozen
class BountyWish:
    """One bounty; every key comes back as sent, and a drafting date is added where none is."""

    bounty_id: Name
    slot_index: Lenient[WholeNumber | None] = None
    update_version: Lenient[WholeNumber] = 0
    drafted_timestamp: Json = None
    sent: Itself = field(factory=dict)

    def bounty(self, now: str) -> Bounty:
        """What the board keeps."""
        stamp = {} if self.drafted_timestamp else {"drafted_timestamp": now}
        kept = {**self.sent, **stamp}
        return Bounty(self.bounty_id, self.slot_index, self.update_version, kept)


@frozen
class BountyUpdate:
    """Bounties to put up by id; those that are not named stay. A draft replaces the last."""

    bounties: Skipping[BountyWish] | None = ()
    draft_data: Lenient[dict[str, Any] | None] = None


@frozen
class BountyIds:
    """Bounties to take down."""

    bounty_ids: Skipping[Name]


class DraftData(TypedDict):
    """What the board draws from; a draft that was sent comes back as sent."""

    current_draft_choices: list[Any]
    previous_draft_selections: list[Any]
    bronze_count: int
    silver_count: int
    gold_count: int


class BountyBoard(TypedDict):
    """The board; the daily and weekly drafts stand on that of fixed progression alone."""

    bounties: list[dict[str, Any]]
    draft_data: DraftData | dict[str, Any]
    draft_data_daily: NotRequired[DraftData]
    draft_data_weekly: NotRequired[DraftData]


def show(bounties: Iterable[Bounty], draft: Mapping[str, Json] | None) -> Answer:
    """A stored board."""
    listed = [one.sent for one in in_order(bounties)]
    payload = {"bounties": listed, "draft_data": NO_DRAFT if draft is None else draft}
    return enveloped(payload, code="OK")


def show_fixed() -> Answer:
    """The board of fixed progression: nothing on it."""
    drafts = {name: NO_DRAFT for name in ("draft_data", "draft_data_daily", "draft_data_weekly")}
    return enveloped({"bounties": [], **drafts})
