"""How a bounty board takes an update. Spec: 1 §4 POST /bounty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json

NO_DRAFT: Mapping[str, Json] = {
    "current_draft_choices": [],
    "previous_draft_selections": [],
    "bronze_count": 0,
    "silver_count": 0,
    "gold_count": 0,
}


@frozen
class Bounty:
    """An element of the board; ``sent`` comes back as it came."""

    id: str
    slot: int | None
    version: int
    sent: Mapping[str, Any]


class Bounties(Protocol):
    """What the rules need kept, inside one transaction."""

    def bounties(self, account_id: AccountId) -> dict[str, Bounty]: ...

    def keep(self, account_id: AccountId, bounty: Bounty) -> None: ...

    def drop(self, account_id: AccountId, bounty_ids: Sequence[str]) -> None: ...

    def keep_draft(self, account_id: AccountId, draft: Mapping[str, Json]) -> None: ...


def update(
    board: Bounties,
    account_id: AccountId,
    wanted: Iterable[Bounty],
    draft: Mapping[str, Json] | None,
    notes: list[str],
) -> None:
    """Upsert by id; absent bounties stay, and so does the draft when there is none."""
    stored = board.bounties(account_id)
    for sent in wanted:
        before = stored.get(sent.id)
        if before is not None and sent.version < before.version:
            notes.append(f"{sent.id}: version {sent.version} is older than {before.version}")
            continue
        pushed = [
            other.id
            for other in stored.values()
            if other.id != sent.id and sent.slot is not None and other.slot == sent.slot
        ]
        board.drop(account_id, pushed)
        for other in pushed:
            del stored[other]
        board.keep(account_id, sent)
        stored[sent.id] = sent
    if draft is not None:
        board.keep_draft(account_id, draft)


def in_order(bounties: Iterable[Bounty]) -> list[Bounty]:
    """By slot, then id; those without a slot last."""
    return sorted(bounties, key=lambda one: (one.slot is None, one.slot or 0, one.id))
